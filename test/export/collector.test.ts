import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { type AddressInfo, connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { builtCollector } from '../../build/go/collector.mjs';
import { selfSigned } from '../../src/operations/admin/metrics/certificate.ts';
import { OtlpReceiver } from '../../src/operations/flow-log/export/otlp-receiver.ts';
import { flowCollectorContract } from '../contract/flow-collector.ts';
import { OtlpCollector } from '../support/flow-collectors/otlp-collector.ts';

const configurations = join(import.meta.dirname, '../../build/observability/collector');
const names = readdirSync(configurations).map((file) => file.replace('.yaml', ''));
const folder = mkdtempSync(join(tmpdir(), 'seine-otelcol-'));
const tls = selfSigned('localhost', Date.now());
const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')];
writeFileSync(cert, tls.cert);
writeFileSync(key, tls.key);
afterAll(() => rmSync(folder, { recursive: true, force: true }));

let program = '';
beforeAll(async () => void (program = await builtCollector()));

const secrets = { ELASTIC_API_KEY: 'a', CLICKHOUSE_PASSWORD: 'b', TLS_CERT: cert, TLS_KEY: key };

describe('configurations of the OpenTelemetry collector', () => {
  it('are those of the guide', () => {
    expect(names).toEqual(['clickhouse', 'elastic', 'loki']);
  });

  it.each(names)('%s is valid, and not with a field that does not exist', (name) => {
    const path = join(configurations, `${name}.yaml`);
    execFileSync(program, ['validate', '--config', path], { env: { ...process.env, ...secrets }, stdio: 'pipe' });
    const wrong = join(folder, `${name}.yaml`);
    writeFileSync(wrong, readFileSync(path, 'utf8').replace('send_batch_size:', 'batch_size_of_sends:'));
    const { status, stderr } = spawnSync(program, ['validate', '--config', wrong], {
      env: { ...process.env, ...secrets },
      encoding: 'utf8',
    });
    expect([status, stderr]).toEqual([1, expect.stringContaining('batch_size_of_sends')]);
  });
});

// The intake of Loki is OTLP over HTTP: the test's own endpoint takes its place behind the real collector.
flowCollectorContract('the collector with the configuration for Loki', async () => {
  program = await builtCollector();
  const loki = await OtlpCollector.open();
  const port = await freePort();
  const collector = spawn(program, ['--config', join(configurations, 'loki.yaml')], {
    env: { ...process.env, ...secrets, LISTEN: `127.0.0.1:${port}`, LOKI_URL: `http://127.0.0.1:${loki.port}`, LOKI_TENANT: 'shop' },
    stdio: ['ignore', 'ignore', 'inherit'],
  });
  const ended = new Promise<void>((resolve) => collector.once('exit', () => resolve()));
  await vi.waitFor(() => connects(port), { timeout: 60_000, interval: 100 });
  return {
    name: 'otlp',
    receiver: new OtlpReceiver({ endpoint: `https://localhost:${port}`, caFile: cert, node: 'node-1', version: '1.2.3' }),
    collector: {
      received: () => loki.received(),
      close: async () => {
        expect(new Set(loki.paths)).toEqual(new Set(['/otlp/v1/logs']));
        expect(loki.headers[0]).toMatchObject({ 'x-scope-orgid': 'shop' });
        expect(loki.logs[0]?.resource).toMatchObject({ 'service.name': 'seine-agent', 'k8s.node.name': 'node-1' });
        collector.kill();
        await ended;
        await loki.close();
      },
    },
  };
});

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

function connects(port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.destroy();
      resolve();
    }).once('error', reject);
  });
}
