import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { get, type RequestOptions } from 'node:http';
import { get as getByTls } from 'node:https';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { text } from '../../src/operations/admin/answer.ts';
import { ApiServer } from '../../src/operations/admin/http-server.ts';
import { selfSigned } from '../../src/operations/admin/metrics/certificate.ts';
import { ServiceHealthChecks } from '../../src/services/controller/effects/health-checks.ts';
import { ProxyHealthz } from '../../src/services/controller/effects/proxy-healthz.ts';

/*
 * Every listener of an agent while one client keeps as many connections to it as possible, ten thousand in all: the checks of load
 * balancers, scrapes and probes are answered meanwhile.
 */

/** Numbers of each kind; the others need fewer, because each of these costs the listener more than a connection. */
const counts = { idle: 10_000, part: 1_500, body: 1_500, unread: 1_500, kept: 1_500, handshake: 1_500 } as const;
type Kind = keyof typeof counts;
const checkMs = 5_000;
const folder = mkdtempSync(join(tmpdir(), 'seine-occupied-'));
const socketPath = join(folder, 'agent.sock');
const occupier = join(import.meta.dirname, '..', 'support', 'occupier.ts');
const metrics = { '/metrics': () => text('seine_agent_ready 1\n'.repeat(10_000)) };
const ends: (() => unknown)[] = [];
const ports = { healthz: 0, healthCheckNodePort: 0, metrics: 0, metricsByTls: 0 };

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', () => resolve()));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  return typeof address === 'object' && address ? address.port : 0;
}

beforeAll(async () => {
  ports.healthz = await freePort();
  ports.healthCheckNodePort = await freePort();
  const healthz = new ProxyHealthz({
    nodeName: 'node-1',
    address: `[::]:${ports.healthz}`,
    mode: { proxyAll: true, kubeProxyFound: false },
    nodes: { get: () => ({ name: 'node-1', uid: 'u', podCidrs: [], internalIps: [], deleting: false }), synced: true },
    obstacle: () => undefined,
    log: silentLog,
  });
  healthz.look();
  const checks = new ServiceHealthChecks({ log: silentLog });
  checks.set('default/web', { namespace: 'default', name: 'web', port: ports.healthCheckNodePort, localEndpoints: 1 });
  const here = { host: '127.0.0.1', port: 0 };
  const plain = await ApiServer.start({ routes: metrics }, here);
  const byTls = await ApiServer.start({ routes: metrics }, { ...here, tls: selfSigned('node-1', Date.now()) });
  const onSocket = await ApiServer.start({ routes: metrics }, { socketPath, log: silentLog });
  ports.metrics = plain.port ?? 0;
  ports.metricsByTls = byTls.port ?? 0;
  ends.push(
    () => healthz.close(),
    () => checks.close(),
    ...[plain, byTls, onSocket].map((server) => () => server.close()),
  );
});
afterAll(async () => {
  for (const end of ends) await end();
  rmSync(folder, { recursive: true });
});

/** The status of a complete answer. */
function status(options: RequestOptions & { readonly tls?: boolean }): Promise<number | string> {
  return new Promise((resolve) => {
    const ask = options.tls ? getByTls : get;
    const all = { host: '127.0.0.1', ...options, agent: false, rejectUnauthorized: false, signal: AbortSignal.timeout(checkMs) };
    ask(all, (response) => {
      response.resume();
      response.once('end', () => resolve(response.statusCode ?? 0));
      response.once('error', ({ message }) => resolve(message));
    }).once('error', ({ message }) => resolve(message));
  });
}

/** Runs checks one after another, until the client has opened its connections; returns their results. */
async function checksWhileOccupied(kind: Kind, place: string, check: () => Promise<number | string>): Promise<(number | string)[]> {
  const client = spawn(process.execPath, [occupier, kind, place, String(counts[kind])], { stdio: ['ignore', 'pipe', 'inherit'] });
  let isReached = false;
  client.stdout.once('data', () => (isReached = true));
  const closed = new Promise((resolve) => client.once('close', resolve));
  try {
    const seen: (number | string)[] = [];
    const deadline = AbortSignal.timeout(60_000);
    while (!deadline.aborted && (!isReached || seen.length < 20)) seen.push(await check());
    expect(isReached, `${counts[kind]} connections were accepted`).toBe(true);
    return seen;
  } finally {
    client.kill('SIGKILL');
    await closed;
  }
}

const listeners = [
  { name: '/healthz of the node', kinds: ['idle', 'part', 'body', 'unread'], place: () => ports.healthz, path: '/healthz' },
  { name: 'a healthCheckNodePort', kinds: ['idle'], place: () => ports.healthCheckNodePort, path: '/' },
  { name: 'the metrics', kinds: ['idle', 'kept', 'unread'], place: () => ports.metrics, path: '/metrics' },
  { name: 'the metrics over TLS', kinds: ['idle', 'handshake'], place: () => ports.metricsByTls, path: '/metrics', tls: true },
] as const;

describe.each(listeners)('one client cannot occupy $name', ({ kinds, place, path, ...how }) => {
  it.each(kinds)('with connections of the kind "%s"', { timeout: 90_000 }, async (kind) => {
    const seen = await checksWhileOccupied(kind, String(place()), () => status({ port: place(), path, ...how }));
    expect(new Set(seen)).toEqual(new Set([200]));
  });
});

it('one client cannot occupy the API socket', { timeout: 90_000 }, async () => {
  const check = async (): Promise<number | string> => {
    for (;;) {
      const seen = await status({ socketPath, path: '/metrics' });
      if (typeof seen === 'number' || !seen.includes('EAGAIN')) return seen; // the kernel's queue is full at this moment
    }
  };
  expect(new Set(await checksWhileOccupied('idle', socketPath, check))).toEqual(new Set([200]));
});
