import { createPrivateKey, createPublicKey, X509Certificate } from 'node:crypto';
import { expect, it } from 'vitest';
import { selfSigned } from './certificate.ts';

it.each(['2026-11-23T20:00:00Z', '2049-06-01T00:00:00Z', '2055-01-01T00:00:00Z'])(
  'creates a certificate that OpenSSL accepts, at %s',
  (at) => {
    const now = Date.parse(at);
    const { cert, key } = selfSigned('node-1.example', now);
    const read = new X509Certificate(cert);
    expect(read.verify(read.publicKey)).toBe(true);
    expect(read.checkPrivateKey(createPrivateKey(key))).toBe(true);
    expect([read.subject, read.issuer, read.checkHost('node-1.example')]).toEqual([
      'CN=node-1.example',
      'CN=node-1.example',
      'node-1.example',
    ]);
    expect([read.validFromDate.getTime() < now, read.validToDate.getTime() > now + 3_000 * 86_400_000]).toEqual([true, true]);
    expect(createPublicKey(key).asymmetricKeyDetails?.namedCurve).toBe('prime256v1');
  },
);

it('creates another key and another serial number each time', () => {
  const [one, other] = [selfSigned('n', 0), selfSigned('n', 0)].map(({ cert }) => new X509Certificate(cert));
  expect(one?.serialNumber).not.toBe(other?.serialNumber);
  expect(one?.fingerprint256).not.toBe(other?.fingerprint256);
});
