import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { TlsCredentials } from '../../src/base/async/endpoint.ts';
import { localPolicy } from '../../src/base/async/reconnect.ts';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';

/** Keys and certificates as ovs-pki makes them: signed by a CA, without a host name. */
let pki: string;
let server: TestOvsdbServer;
let port: number;
let stop: AbortController;
let failures: SeineError[];

beforeAll(() => {
  pki = mkdtempSync('/tmp/seine-pki-');
  for (const ca of ['ca', 'stranger']) {
    openssl('req', '-x509', ...newKey(ca), '-out', `${ca}-cert.pem`, '-days', '2', '-subj', `/CN=${ca}`);
  }
  for (const [name, ca] of [
    ['server', 'ca'],
    ['client', 'ca'],
    ['impostor', 'stranger'],
  ] as const) {
    openssl('req', ...newKey(name), '-out', `${name}-req.pem`, '-subj', `/CN=${name} id:1`);
    const signing = ['-CA', `${ca}-cert.pem`, '-CAkey', `${ca}-privkey.pem`, '-CAcreateserial', '-days', '2'];
    openssl('x509', '-req', '-in', `${name}-req.pem`, '-out', `${name}-cert.pem`, ...signing);
  }
});

afterAll(() => rmSync(pki, { recursive: true }));

beforeEach(async () => {
  stop = new AbortController();
  failures = [];
  port = await freePort();
});

afterEach(async () => {
  stop.abort();
  await server.remove();
});

function newKey(name: string): readonly string[] {
  return ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', `${name}-privkey.pem`];
}

function openssl(...args: readonly string[]): void {
  execFileSync('openssl', args, { cwd: pki, stdio: 'ignore' });
}

function credentials(name: string, ca = 'ca'): TlsCredentials {
  const text = (file: string): string => readFileSync(`${pki}/${file}`, 'utf8');
  return { privateKey: text(`${name}-privkey.pem`), certificate: text(`${name}-cert.pem`), caCertificate: text(`${ca}-cert.pem`) };
}

async function freePort(): Promise<number> {
  const listener = createServer().listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const address = listener.address();
  listener.close();
  await once(listener, 'close');
  if (address === null || typeof address === 'string') throw new Error('no port');
  return address.port;
}

async function serve(remote: string): Promise<void> {
  const tls = [`--private-key=${pki}/server-privkey.pem`, `--certificate=${pki}/server-cert.pem`, `--ca-cert=${pki}/ca-cert.pem`];
  server = new TestOvsdbServer({ args: [`--remote=${remote}`, ...tls] });
  await server.start();
  server.vsctl('init', '--', 'add-br', 'br0');
}

function connect(endpoint: string, tls?: () => TlsCredentials) {
  const client = new OvsdbClient({
    database: openVswitch,
    endpoint,
    ...(tls === undefined ? {} : { tls }),
    monitor: { Bridge: ['name'] },
    reconnect: { ...localPolicy, minBackoffMs: 5, maxBackoffMs: 50 },
    hooks: { failed: (cause) => failures.push(cause) },
  });
  void client.run(stop.signal);
  return client;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

describe('a client', () => {
  it('uses TCP, and answers the probes of a server that drops silent clients', async () => {
    await serve('db:Open_vSwitch,Open_vSwitch,manager_options');
    server.vsctl('set-manager', `ptcp:${port}:127.0.0.1`, '--', 'set', 'Manager', '.', 'inactivity_probe=1000');
    const client = connect(`tcp:127.0.0.1:${port}`);
    await client.synced(stop.signal);
    expect(client.tables.Bridge.find('name', 'br0')).toBeDefined();
    // The server probes after a second of silence, its minimum, and closes after another. Our timeout is longer, so that this second one
    // passes only if the probe was answered.
    await new Promise((resolve) => setTimeout(resolve, 2_700));
    expect(client.counters.syncs).toBe(1);
    expect(await client.serverId(stop.signal)).toMatch(/^[0-9a-f-]{36}$/);
  });

  it('uses TLS, with authentication of both sides', async () => {
    await serve(`pssl:${port}:127.0.0.1`);
    const client = connect(`ssl:127.0.0.1:${port}`, () => credentials('client'));
    await client.synced(stop.signal);
    await client.transact(
      (tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'br1' })]]),
      stop.signal,
    );
    expect(Array.from(client.tables.Bridge.rows(), ({ name }) => name).toSorted()).toEqual(['br0', 'br1']);
  });

  it('is refused with an unknown certificate, and uses the right one when it is there', async () => {
    await serve(`pssl:${port}:127.0.0.1`);
    let name = 'impostor';
    const client = connect(`ssl:127.0.0.1:${port}`, () => credentials(name));
    await until(() => failures.length >= 2);
    expect(client.isSynced).toBe(false);
    expect(failures.map(({ code }) => code)).toEqual(failures.map(() => 'UNAVAILABLE'));
    name = 'client';
    await client.synced(stop.signal);
  });

  it('trusts no server that its CA has not signed', async () => {
    await serve(`pssl:${port}:127.0.0.1`);
    const client = connect(`ssl:127.0.0.1:${port}`, () => credentials('client', 'stranger'));
    await until(() => failures.length > 0);
    expect(client.isSynced).toBe(false);
    expect(failures[0]?.message).toMatch(/certificate/);
  });

  it('requires credentials for TLS when it is created, not later', async () => {
    await serve(`ptcp:${port}:127.0.0.1`);
    expect(() => connect(`ssl:127.0.0.1:${port}`)).toThrow('[INVALID_INPUT]');
  });
});
