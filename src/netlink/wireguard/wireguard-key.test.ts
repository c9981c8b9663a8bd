import { execFileSync } from 'node:child_process';
import { inspect } from 'node:util';
import { expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { parseWireGuardPublicKey, WireGuardPrivateKey } from './wireguard-key.ts';

it('derives the public key that OpenSSL derives', () => {
  // openssl genpkey -algorithm X25519; openssl pkey -text_pub
  const key = WireGuardPrivateKey.generate();
  const der = Buffer.concat([Buffer.from('302e020100300506032b656e04220420', 'hex'), key.bytes]);
  const pub = execFileSync('openssl', ['pkey', '-inform', 'DER', '-pubout', '-outform', 'DER'], { input: der });
  expect(key.publicKey).toBe(pub.subarray(-32).toString('base64'));
});

it('keeps a key over its text, with the fixed bits set', () => {
  const key = WireGuardPrivateKey.generate();
  expect((key.bytes[0] ?? 255) & 7).toBe(0);
  expect((key.bytes[31] ?? 0) & 0xc0).toBe(0x40);
  expect(WireGuardPrivateKey.parse(key.toBase64()).publicKey).toBe(key.publicKey);
  expect(parseWireGuardPublicKey(key.publicKey)).toBe(key.publicKey);
});

it('prints no private key', () => {
  const key = WireGuardPrivateKey.generate();
  const printed = [String(key), JSON.stringify({ key }), inspect(key, { depth: 9, showHidden: true })].join('\n');
  expect(printed).not.toContain(key.toBase64());
  expect(printed).not.toContain(Buffer.from(key.bytes).toString('hex'));
});

it.each([
  ['an empty text', ''],
  ['31 bytes', Buffer.alloc(31, 1).toString('base64')],
  ['33 bytes', Buffer.alloc(33, 1).toString('base64')],
  ['bits after the last byte', `${'A'.repeat(42)}B=`],
  ['characters outside base64', `${'*'.repeat(43)}=`],
  ['zero bytes', Buffer.alloc(32).toString('base64')],
])('rejects %s as a public key', (_, text) => {
  expect(() => parseWireGuardPublicKey(text)).toThrow(SeineError);
});

it('does not repeat a rejected private key in the error', () => {
  const secret = Buffer.alloc(33, 7).toString('base64');
  expect(() => WireGuardPrivateKey.parse(secret)).toThrow(/44 characters/);
  try {
    WireGuardPrivateKey.parse(secret);
  } catch (error) {
    expect(inspect(error, { depth: 9 })).not.toContain(secret);
  }
});
