import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { TLSSocket } from 'node:tls';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { text } from './answer.ts';
import type { ApiServer } from './http-server.ts';
import { type ServerCertificate, selfSigned } from './metrics/certificate.ts';
import { MetricsByTls } from './metrics-by-tls.ts';

const stop = new AbortController();
const here = { host: '127.0.0.1', port: 0 };
const routes = { '/metrics': () => text('seine_agent_ready 1'), '/readyz': () => text('ready') };
let folder = '';
let server: ApiServer | undefined;
let isAway = false;

/** API server that knows `good` and `stranger`, and authorizes the first. */
const http = {
  json: async ({ path, body }: { readonly path: string; readonly body?: unknown }) => {
    if (isAway) throw new SeineError('UNAVAILABLE', 'no answer');
    const { spec } = body as { readonly spec: { readonly token?: string; readonly user?: string } };
    if (!path.endsWith('tokenreviews')) return { status: { allowed: spec.user === 'good' } };
    return { status: { authenticated: ['good', 'stranger'].includes(spec.token ?? ''), user: { username: spec.token } } };
  },
};

async function start(files?: Record<'metricsTLSCertFile' | 'metricsTLSKeyFile', string>): Promise<void> {
  const config = { nodeName: 'node-1', metricsTLSAddress: '127.0.0.1:0', ...files };
  server = await new MetricsByTls({ config, http, routes, log: silentLog, checkMs: 10 }).start(here, stop.signal);
}

function get(path: string, token?: string): Promise<{ status: number; body: string; subject: string; challenge: string }> {
  return new Promise((resolve, reject) => {
    const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
    const options = { ...here, port: server?.port, path, headers, rejectUnauthorized: false, agent: false };
    request(options, (response) => {
      let body = '';
      const { subject } = (response.socket as TLSSocket).getPeerCertificate();
      const challenge = response.headers['www-authenticate'] ?? '';
      response.setEncoding('utf8').on('data', (piece: string) => (body += piece));
      response.once('end', () => resolve({ status: response.statusCode ?? 0, body, subject: String(subject.CN), challenge }));
    })
      .once('error', reject)
      .end();
  });
}

beforeEach(() => {
  isAway = false;
  folder = mkdtempSync(join(tmpdir(), 'seine-tls-'));
});
afterEach(async () => {
  await server?.close();
  rmSync(folder, { recursive: true });
});

it('serves metrics to clients that RBAC permits, with its own certificate', async () => {
  await start();
  expect(await get('/metrics', 'good')).toMatchObject({ status: 200, body: 'seine_agent_ready 1\n', subject: 'node-1' });
});

it('serves no other client, and nothing else', async () => {
  await start();
  expect(await get('/metrics')).toMatchObject({ status: 401, challenge: 'Bearer' });
  expect(await get('/metrics', 'unheard-of')).toMatchObject({ status: 401 });
  expect(await get('/metrics', 'stranger')).toMatchObject({ status: 403 });
  expect(await get('/readyz', 'good')).toMatchObject({ status: 404 });
  expect(await get('/readyz')).toMatchObject({ status: 401 });
});

it('reports that it cannot authenticate the client', async () => {
  await start();
  isAway = true;
  expect(await get('/metrics', 'good')).toMatchObject({ status: 503, body: expect.stringContaining('no answer') });
  isAway = false;
  expect(await get('/metrics', 'good')).toMatchObject({ status: 200 });
});

it('uses the certificate of files, and the next one when they are replaced', async () => {
  const files = { metricsTLSCertFile: join(folder, 'tls.crt'), metricsTLSKeyFile: join(folder, 'tls.key') };
  const write = ({ cert, key }: ServerCertificate): void => {
    writeFileSync(files.metricsTLSCertFile, cert);
    writeFileSync(files.metricsTLSKeyFile, key);
  };
  write(selfSigned('first', Date.now()));
  await start(files);
  expect((await get('/metrics', 'good')).subject).toBe('first');
  writeFileSync(files.metricsTLSKeyFile, 'half of a key');
  expect((await get('/metrics', 'good')).subject).toBe('first');
  write(selfSigned('second', Date.now()));
  await vi.waitFor(async () => expect((await get('/metrics', 'good')).subject).toBe('second'), { timeout: 20_000 });
});

it('does not start with files that are not a certificate', async () => {
  const files = { metricsTLSCertFile: join(folder, 'none'), metricsTLSKeyFile: join(folder, 'none') };
  await expect(start(files)).rejects.toThrow(/no such file/);
  writeFileSync(files.metricsTLSCertFile, 'no PEM');
  await expect(start(files)).rejects.toThrow('metrics by TLS');
});
