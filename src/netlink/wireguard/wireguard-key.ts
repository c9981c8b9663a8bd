import { createPrivateKey, createPublicKey, randomBytes } from 'node:crypto';
import { inspect } from 'node:util';
import { SeineError } from '../../base/errors/seine-error.ts';

declare const isPublicKey: unique symbol;

/** Public key of WireGuard: 32 bytes of Curve25519 (RFC 7748) as base64 of 44 characters, as `wg` prints it. */
export type WireGuardPublicKey = string & { readonly [isPublicKey]: true };

/**
 * Parses a public key.
 *
 * @throws SeineError `INVALID_INPUT` if it is not the canonical base64 of 32 bytes, or all bytes are zero
 */
export function parseWireGuardPublicKey(text: string): WireGuardPublicKey {
  return publicKeyOf(keyBytes(text, 'public key'));
}

/** @throws SeineError `INVALID_INPUT` if there are not 32 bytes, or all of them are zero */
export function publicKeyOf(bytes: Uint8Array): WireGuardPublicKey {
  if (bytes.length !== keyLength || bytes.every((byte) => byte === 0))
    throw new SeineError('INVALID_INPUT', 'a WireGuard public key is 32 bytes that are not all zero');
  return Buffer.from(bytes).toString('base64') as WireGuardPublicKey;
}

export function publicKeyBytes(key: WireGuardPublicKey): Uint8Array {
  return Buffer.from(key, 'base64');
}

/** Private key of WireGuard. It prints as `[redacted]`, also in logs and JSON: the bytes leave by `bytes` and `toBase64` alone. */
export class WireGuardPrivateKey {
  readonly #bytes: Uint8Array;
  readonly publicKey: WireGuardPublicKey;

  private constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.publicKey = publicKeyOf(publicBytesOf(bytes));
  }

  /** Generates a key of 32 random bytes, of which five bits are fixed (RFC 7748, section 5). */
  static generate(): WireGuardPrivateKey {
    return WireGuardPrivateKey.of(randomBytes(keyLength));
  }

  /** @throws SeineError `INVALID_INPUT`, without the text, if it is not the canonical base64 of 32 bytes */
  static parse(text: string): WireGuardPrivateKey {
    return WireGuardPrivateKey.of(keyBytes(text, 'private key'));
  }

  private static of(bytes: Uint8Array): WireGuardPrivateKey {
    const clamped = Uint8Array.from(bytes);
    clamped[0] = (clamped[0] ?? 0) & 0xf8;
    clamped[31] = ((clamped[31] ?? 0) & 0x7f) | 0x40;
    return new WireGuardPrivateKey(clamped);
  }

  get bytes(): Uint8Array {
    return this.#bytes;
  }

  /** Text for the key file. */
  toBase64(): string {
    return Buffer.from(this.#bytes).toString('base64');
  }

  toString(): string {
    return redacted;
  }

  toJSON(): string {
    return redacted;
  }

  [inspect.custom](): string {
    return redacted;
  }
}

/** @throws SeineError `INVALID_INPUT`, without the text: it may be a secret */
function keyBytes(text: string, what: string): Uint8Array {
  const bytes = Buffer.from(text.length === keyTextLength ? text : '', 'base64');
  if (bytes.length !== keyLength || bytes.toString('base64') !== text)
    throw new SeineError(
      'INVALID_INPUT',
      `a WireGuard ${what} is the base64 of 32 bytes (44 characters); there are ${text.length} characters`,
    );
  return bytes;
}

/** Node's interface takes and gives keys of Curve25519 inside the DER of PKCS #8 and SPKI (RFC 8410), whose beginnings are fixed. */
function publicBytesOf(privateBytes: Uint8Array): Uint8Array {
  const der = Buffer.concat([pkcs8Prefix, privateBytes]);
  const spki = createPublicKey(createPrivateKey({ key: der, format: 'der', type: 'pkcs8' })).export({ format: 'der', type: 'spki' });
  return spki.subarray(spki.length - keyLength);
}

const pkcs8Prefix = Buffer.from('302e020100300506032b656e04220420', 'hex');
const keyLength = 32;
const keyTextLength = 44;
const redacted = '[redacted]';
