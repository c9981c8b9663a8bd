import { SeineError } from '../errors/seine-error.ts';

/** Ethernet address in lower-case text, `aa:bb:cc:dd:ee:ff`. */
export type Mac = string & { readonly brand: 'Mac' };

/** Parses an Ethernet address. @throws SeineError `INVALID_INPUT` if `text` is not six hexadecimal bytes with colons */
export function parseMac(text: string): Mac {
  if (!/^([0-9a-f]{2}:){5}[0-9a-f]{2}$/i.test(text))
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(text)} is not an Ethernet address`);
  return text.toLowerCase() as Mac;
}

export function macToBytes(mac: Mac): Uint8Array {
  return Uint8Array.from({ length: 6 }, (_, at) => Number.parseInt(mac.slice(at * 3, at * 3 + 2), 16));
}

/** Two hexadecimal digits for each byte value. */
const digits: readonly string[] = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, '0'));

/** Formats an Ethernet address. @param bytes exactly six bytes */
export function macFromBytes(bytes: Uint8Array): Mac {
  if (bytes.length !== 6) throw new SeineError('INVARIANT', `an Ethernet address has 6 bytes, not ${bytes.length}`);
  const [a = 0, b = 0, c = 0, d = 0, e = 0, f = 0] = bytes;
  return `${digits[a]}:${digits[b]}:${digits[c]}:${digits[d]}:${digits[e]}:${digits[f]}` as Mac;
}
