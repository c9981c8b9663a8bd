import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { join } from 'node:path';
import { run } from '../machine/process.ts';

const validDays = '3650';
const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes'];

/** Subject of a certificate, and the names of its server. */
export interface CertificateSubject {
  readonly name: string;
  readonly commonName: string;
  /** The organization, which Kubernetes reads as the group. */
  readonly organization?: string;
  /** Host names and addresses. */
  readonly alternatives?: readonly string[];
}

/** The files of a certificate authority and its certificates, in one folder. Created once; existing files stay. */
export class Certificates {
  readonly #folder: string;

  constructor(folder: string) {
    this.#folder = folder;
  }

  file(name: string, end: 'crt' | 'key' | 'pub'): string {
    return join(this.#folder, `${name}.${end}`);
  }

  pem(name: string, end: 'crt' | 'key'): string {
    return readFileSync(this.file(name, end), 'utf8');
  }

  /** Creates the authority, and the keys that sign tokens of service accounts. @throws SeineError `REFUSED` with openssl's output */
  async make(signal: AbortSignal): Promise<void> {
    mkdirSync(this.#folder, { recursive: true, mode: 0o700 });
    if (existsSync(this.file('sa', 'pub'))) return;
    const ca = ['-keyout', this.file('ca', 'key'), '-out', this.file('ca', 'crt'), '-days', validDays, '-subj', '/CN=seine-lab-ca'];
    await run('openssl', ['req', '-x509', ...newKey, ...ca], {}, signal);
    const key = this.file('sa', 'key');
    await run('openssl', ['ecparam', '-name', 'prime256v1', '-genkey', '-noout', '-out', key], {}, signal);
    await run('openssl', ['ec', '-in', key, '-pubout', '-out', this.file('sa', 'pub')], {}, signal);
  }

  async sign({ name, commonName, organization, alternatives = [] }: CertificateSubject, signal: AbortSignal): Promise<void> {
    if (existsSync(this.file(name, 'crt'))) return;
    const asked = join(this.#folder, `${name}.csr`);
    const extensions = join(this.#folder, `${name}.ext`);
    writeFileSync(extensions, extensionsText(alternatives));
    const subject = `${organization === undefined ? '' : `/O=${organization}`}/CN=${commonName}`;
    await run('openssl', ['req', '-new', ...newKey, '-keyout', this.file(name, 'key'), '-out', asked, '-subj', subject], {}, signal);
    const authority = ['-CA', this.file('ca', 'crt'), '-CAkey', this.file('ca', 'key'), '-CAserial', join(this.#folder, `${name}.srl`)];
    const signed = ['-CAcreateserial', '-days', validDays, '-extfile', extensions, '-out', this.file(name, 'crt')];
    await run('openssl', ['x509', '-req', '-in', asked, ...authority, ...signed], {}, signal);
  }
}

/** Text of openssl's x509v3_config(5). */
export function extensionsText(alternatives: readonly string[]): string {
  const names = alternatives.map((name) => `${isIP(name) === 0 ? 'DNS' : 'IP'}:${name}`);
  const lines = ['keyUsage=digitalSignature', 'extendedKeyUsage=serverAuth,clientAuth'];
  return `${[...lines, ...(names.length > 0 ? [`subjectAltName=${names.join(',')}`] : [])].join('\n')}\n`;
}
