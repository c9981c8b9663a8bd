import { sha256 } from './sha256.ts';

/** Part of `node:crypto` that is used. Found at run time, so that rooms which hash can be bundled for a browser. */
interface NodeCrypto {
  createHash(algorithm: 'sha256'): { update(text: string): { digest(encoding: 'hex' | 'base64url'): string } };
}

interface NodeProcess {
  getBuiltinModule?: (name: string) => unknown;
}

const { process: host } = globalThis as { readonly process?: NodeProcess };
const native = host?.getBuiltinModule?.('node:crypto') as NodeCrypto | undefined;

/** Digests of texts, in hexadecimal digits and as unpadded base64 for names (RFC 4648 section 5). */
interface Digests {
  hex(text: string): string;
  base64url(text: string): string;
}

/** SHA-256 in plain JavaScript. */
export const portableDigests: Digests = {
  hex: (text) => sha256(text.toWellFormed()),
  base64url: (text) => base64urlOf(sha256(text.toWellFormed())),
};

/** SHA-256 by Node.js, or in plain JavaScript where there is none. */
export const digests: Digests = native
  ? {
      hex: (text) => native.createHash('sha256').update(text).digest('hex'),
      base64url: (text) => native.createHash('sha256').update(text).digest('base64url'),
    }
  : portableDigests;

const characters = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_';

/** @param hex an even number of digits */
function base64urlOf(hex: string): string {
  let bits = '';
  for (const digit of hex) bits += Number.parseInt(digit, 16).toString(2).padStart(4, '0');
  let text = '';
  for (let at = 0; at < bits.length; at += 6) text += characters[Number.parseInt(bits.slice(at, at + 6).padEnd(6, '0'), 2)];
  return text;
}
