import type { ByteReader, ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';

/**
 * Visits properties, the extensible tail of many messages: u16 type, u16 length without padding, value, zeros to a multiple of 8.
 *
 * Source: OpenFlow 1.5.1 section 7.1.1 "Structure padding", `ofp_prop_header`.
 *
 * @throws SeineError `PROTOCOL` if a length is below 4 or exceeds the rest of the bytes
 */
export function eachProperty(r: ByteReader, visit: (type: number, body: ByteReader) => void): void {
  while (r.remaining > 0) {
    const [type, length] = [r.peekU16(0), r.peekU16(2)];
    if (length < 4) throw new SeineError('PROTOCOL', `property of ${length} bytes`);
    visit(type, r.part(length, 'property').skip(4));
    r.skip(Math.min((8 - (length % 8)) % 8, r.remaining));
  }
}

export function writeProperty(w: ByteWriter, type: number, body: (w: ByteWriter) => void): void {
  const start = w.length;
  w.u16(type).u16(0);
  body(w);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** Decodes text in a field of fixed size: up to the first zero. */
export function textOf(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}
