import { generateKeyPairSync, randomBytes, X509Certificate } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import forge from 'node-forge';

interface ServerCredentials {
  readonly caPem: string;
  readonly certPem: string;
  readonly keyPem: string;
  /** Bearer token of the cluster's administrator. */
  readonly token: string;
}

interface Saved extends ServerCredentials {
  readonly caKeyPem: string;
}

const dayMs = 86_400_000;
const validDays = 3650;

/**
 * The server's authority, certificate and token, created at the first start and kept in `dir/credentials.json` (0600), so that a kubeconfig
 * outlives a restart. The server certificate is recreated when `sans` contains a name it does not have.
 *
 * @param sans host names and IP addresses
 */
export function serverCredentials(dir: string, sans: readonly string[], nowMs: number): ServerCredentials {
  mkdirSync(dir, { recursive: true, mode: 0o700 });
  const path = join(dir, 'credentials.json');
  const saved = existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as Saved) : undefined;
  if (saved !== undefined && covers(saved.certPem, sans)) return saved;
  const made = saved === undefined ? newCredentials(sans, nowMs) : { ...saved, ...signedBy(saved.caPem, saved.caKeyPem, sans, nowMs) };
  writeFileSync(`${path}.new`, JSON.stringify(made), { mode: 0o600 });
  renameSync(`${path}.new`, path);
  return made;
}

function covers(certPem: string, sans: readonly string[]): boolean {
  const certificate = new X509Certificate(certPem);
  return sans.every((name) => (isIP(name) === 0 ? certificate.checkHost(name) : certificate.checkIP(name)) !== undefined);
}

function newCredentials(sans: readonly string[], nowMs: number): Saved {
  const { privateKey, publicKey } = newKeys();
  const ca = unsigned(publicKey, 'seine-lab-ca', nowMs);
  ca.setIssuer(ca.subject.attributes);
  ca.setExtensions([
    { name: 'basicConstraints', cA: true, critical: true },
    { name: 'keyUsage', keyCertSign: true, cRLSign: true, critical: true },
    { name: 'subjectKeyIdentifier' },
  ]);
  ca.sign(forge.pki.privateKeyFromPem(privateKey), forge.md.sha256.create());
  const caPem = forge.pki.certificateToPem(ca);
  return { caPem, caKeyPem: privateKey, token: randomBytes(32).toString('hex'), ...signedBy(caPem, privateKey, sans, nowMs) };
}

function signedBy(
  caPem: string,
  caKeyPem: string,
  sans: readonly string[],
  nowMs: number,
): { readonly certPem: string; readonly keyPem: string } {
  const { privateKey, publicKey } = newKeys();
  const certificate = unsigned(publicKey, 'seine-lab-apiserver', nowMs);
  certificate.setIssuer(forge.pki.certificateFromPem(caPem).subject.attributes);
  const altNames = sans.map((name) => (isIP(name) === 0 ? { type: 2, value: name } : { type: 7, ip: name }));
  certificate.setExtensions([
    { name: 'basicConstraints', cA: false, critical: true },
    { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, critical: true },
    { name: 'extKeyUsage', serverAuth: true },
    { name: 'subjectAltName', altNames },
  ]);
  certificate.sign(forge.pki.privateKeyFromPem(caKeyPem), forge.md.sha256.create());
  return { certPem: forge.pki.certificateToPem(certificate), keyPem: privateKey };
}

/** RSA keys, because node-forge signs with nothing else. OpenSSL generates them 20 times faster. */
function newKeys(): { readonly privateKey: string; readonly publicKey: string } {
  return generateKeyPairSync('rsa', {
    modulusLength: 2048,
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
    publicKeyEncoding: { type: 'spki', format: 'pem' },
  });
}

function unsigned(publicKeyPem: string, commonName: string, nowMs: number): forge.pki.Certificate {
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = forge.pki.publicKeyFromPem(publicKeyPem);
  certificate.serialNumber = `01${randomBytes(15).toString('hex')}`;
  certificate.validity.notBefore = new Date(nowMs - dayMs);
  certificate.validity.notAfter = new Date(nowMs + validDays * dayMs);
  certificate.setSubject([{ name: 'commonName', value: commonName }]);
  return certificate;
}
