import { generateKeyPairSync, randomBytes, sign } from 'node:crypto';

/** Certificate of a server: PEM, the chain in order. */
export interface ServerCertificate {
  readonly cert: string;
  readonly key: string;
}

const dayMs = 86_400_000;
const validDays = 3650;

/**
 * Creates a self-signed certificate, for a server without a configured one: it encrypts, but does not authenticate. Source: RFC 5280
 * section 4.1, RFC 5480, DER by ITU-T X.690.
 *
 * @param name subject, and the name that clients may check
 */
export function selfSigned(name: string, nowMs: number): ServerCertificate {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'prime256v1' });
  const algorithm = sequence(oid([1, 2, 840, 10045, 4, 3, 2])); // ecdsa-with-SHA256
  const subject = sequence(set(sequence(oid([2, 5, 4, 3]), tagged(0x0c, Buffer.from(name)))));
  const body = sequence(
    tagged(0xa0, integer(Buffer.from([2]))), // version 3
    integer(Buffer.concat([Buffer.from([1]), randomBytes(15)])),
    algorithm,
    subject,
    sequence(time(nowMs - dayMs), time(nowMs + validDays * dayMs)),
    subject,
    publicKey.export({ type: 'spki', format: 'der' }),
    tagged(0xa3, sequence(sequence(oid([2, 5, 29, 17]), tagged(0x04, sequence(tagged(0x82, Buffer.from(name))))))), // subjectAltName: dNSName
  );
  const signature = tagged(0x03, Buffer.from([0]), sign('sha256', body, privateKey));
  const der = sequence(body, algorithm, signature).toString('base64');
  return {
    cert: ['-----BEGIN CERTIFICATE-----', ...(der.match(/.{1,64}/g) ?? []), '-----END CERTIFICATE-----', ''].join('\n'),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  };
}

function tagged(tag: number, ...parts: readonly Buffer[]): Buffer {
  const content = Buffer.concat(parts);
  const { length } = content;
  const head = length < 0x80 ? [length] : length < 0x100 ? [0x81, length] : [0x82, length >> 8, length & 0xff];
  return Buffer.concat([Buffer.from([tag, ...head]), content]);
}

const sequence = (...parts: readonly Buffer[]): Buffer => tagged(0x30, ...parts);
const set = (...parts: readonly Buffer[]): Buffer => tagged(0x31, ...parts);

/** @param bytes of a positive number, the first below 128 */
const integer = (bytes: Buffer): Buffer => tagged(0x02, bytes);

/** GeneralizedTime has four digits for the year, UTCTime two, which RFC 5280 requires up to 2049. */
function time(ms: number): Buffer {
  const digits = `${new Date(ms).toISOString().replace(/[-:T]|\..*/g, '')}Z`;
  return Number(digits.slice(0, 4)) < 2050 ? tagged(0x17, Buffer.from(digits.slice(2))) : tagged(0x18, Buffer.from(digits));
}

function oid([first = 0, second = 0, ...rest]: readonly number[]): Buffer {
  const bytes = rest.flatMap((arc) => {
    const sevens = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) sevens.unshift((left & 0x7f) | 0x80);
    return sevens;
  });
  return tagged(0x06, Buffer.from([first * 40 + second, ...bytes]));
}
