import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { selfSigned } from '../../src/operations/admin/metrics/certificate.ts';
import type { FlowReceiver } from '../../src/operations/flow-log/export/exported-item.ts';
import { FlowExport } from '../../src/operations/flow-log/export/flow-export.ts';
import { IpfixReceiver } from '../../src/operations/flow-log/export/ipfix-receiver.ts';
import { OtlpReceiver } from '../../src/operations/flow-log/export/otlp-receiver.ts';
import { IpfixCollector } from '../support/flow-collectors/ipfix-collector.ts';
import { OtlpCollector } from '../support/flow-collectors/otlp-collector.ts';
import { exampleFlow, flowCollectorContract } from './flow-collector.ts';

const folder = mkdtempSync(join(tmpdir(), 'seine-export-'));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const tls = selfSigned('localhost', Date.now());
const caFile = join(folder, 'ca.pem');
writeFileSync(caFile, tls.cert);
const headersFile = join(folder, 'headers');
writeFileSync(headersFile, 'Authorization: Bearer first\n');

const clock = { wallMs: () => Date.now(), steadyMs: () => performance.now() };
const otlpTo = (endpoint: string, more = {}): FlowReceiver => new OtlpReceiver({ endpoint, node: 'node-1', version: '1.2.3', ...more });
const ipfixTo = (transport: 'tcp' | 'udp' | 'tls', port: number, more = {}): IpfixReceiver =>
  new IpfixReceiver({ collector: { transport, host: transport === 'tls' ? 'localhost' : '127.0.0.1', port }, domain: 77, clock, ...more });

flowCollectorContract('an OTLP endpoint', async () => {
  const collector = await OtlpCollector.open();
  return { name: 'otlp', collector, receiver: otlpTo(`http://127.0.0.1:${collector.port}`) };
});
flowCollectorContract('an OTLP endpoint over TLS', async () => {
  const collector = await OtlpCollector.open({ tls });
  return { name: 'otlp', collector, receiver: otlpTo(`https://localhost:${collector.port}`, { caFile, headersFile }) };
});
for (const transport of ['tcp', 'tls', 'udp'] as const)
  flowCollectorContract(`an IPFIX collector over ${transport}`, async () => {
    const collector = await IpfixCollector.open({ transport, tls });
    return { name: 'ipfix', collector, receiver: ipfixTo(transport, collector.port, transport === 'tls' ? { caFile } : {}) };
  });

const closing: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});
const noWait = () => new Promise<void>((resolve) => setImmediate(resolve));
function exportTo(receiver: FlowReceiver, name: 'otlp' | 'ipfix'): FlowExport {
  const target = new FlowExport({ name, receiver, log: silentLog, now: () => performance.now(), wait: noWait });
  closing.push(() => target.close());
  return target;
}
function add(target: FlowExport, count: number, first = 0): void {
  for (let index = 0; index < count; index++) target.add({ kind: 'flow', flow: exampleFlow(first + index) });
}
async function collector(options: Parameters<typeof OtlpCollector.open>[0] = {}): Promise<OtlpCollector> {
  const opened = await OtlpCollector.open(options);
  closing.push(() => opened.close());
  return opened;
}

describe('export to an OTLP endpoint', () => {
  it('sends headers from the file as it is now, the resource, and to the path of the endpoint', async () => {
    const to = await collector();
    const target = exportTo(otlpTo(`http://127.0.0.1:${to.port}/otlp/v1/logs`, { headersFile }), 'otlp');
    add(target, 256);
    await vi.waitFor(() => expect(target.counts.sent).toBe(256));
    writeFileSync(headersFile, 'Authorization: Bearer second\nX-Scope-OrgID: shop\n');
    add(target, 256);
    await vi.waitFor(() => expect(target.counts.sent).toBe(512));
    expect(to.headers.map(({ authorization, 'x-scope-orgid': tenant }) => [authorization, tenant])).toEqual([
      ['Bearer first', undefined],
      ['Bearer second', 'shop'],
    ]);
    expect(to.paths[0]).toBe('/otlp/v1/logs');
    expect(to.logs[0]?.resource).toEqual({ 'service.name': 'seine-agent', 'service.version': '1.2.3', 'k8s.node.name': 'node-1' });
  });

  it('sends again after 429 and 503, not after 400, and counts what a partial success rejects', async () => {
    const to = await collector();
    const answers = [{ status: 429, retryAfterS: 60 }, { status: 503, retryAfterS: 60 }, 'ok', { status: 400 }, { rejects: 6 }] as const;
    let asked = 0;
    to.answer = () => answers[asked++] ?? 'ok';
    const target = exportTo(otlpTo(`http://127.0.0.1:${to.port}`), 'otlp');
    add(target, 256);
    await vi.waitFor(() => expect(target.counts.sent).toBe(256));
    add(target, 256);
    await vi.waitFor(() => expect(target.counts.refused).toBe(256));
    add(target, 256);
    await vi.waitFor(() => expect(target.counts).toEqual({ sent: 506, full: 0, refused: 262, unsent: 0 }));
    expect(asked).toBe(5);
  });

  it('does not send to an endpoint with another certificate, nor without its headers', async () => {
    const to = await collector({ tls: selfSigned('localhost', Date.now()) });
    const waits = vi.fn(noWait);
    const failing = [
      otlpTo(`https://localhost:${to.port}`, { caFile }),
      otlpTo(`https://localhost:${to.port}`, { headersFile: join(folder, 'absent') }),
    ];
    for (const receiver of failing) {
      waits.mockClear();
      const target = new FlowExport({ name: 'otlp', receiver, log: silentLog, now: () => 0, wait: waits });
      closing.push(() => target.close());
      add(target, 256);
      await vi.waitFor(() => expect(waits.mock.calls.length).toBeGreaterThan(2));
      expect(target.counts).toEqual({ sent: 0, full: 0, refused: 0, unsent: 0 });
    }
    expect(to.headers).toEqual([]);
  });

  it('is not blocked by an endpoint that never answers, and sends all when another one is there', async () => {
    const silent = await collector();
    silent.answer = () => 'hang';
    const target = exportTo(otlpTo(`http://127.0.0.1:${silent.port}`), 'otlp');
    const before = performance.now();
    add(target, 10_000);
    expect(performance.now() - before).toBeLessThan(1_000);
    expect(target.counts.full).toBe(10_000 - 4_096);
    await vi.waitFor(() => expect(silent.headers).toHaveLength(1));
    const { port } = silent;
    await silent.close();
    const to = await collector({ port });
    await vi.waitFor(() => expect(target.counts.sent).toBe(4_096), { timeout: 30_000 });
    expect(await to.received()).toHaveLength(4_096);
  });
});

describe('export to an IPFIX collector', () => {
  it('begins each connection with the templates and from 0, and loses nothing that waits while the collector is down', async () => {
    const first = await IpfixCollector.open({ transport: 'tcp' });
    const wait = vi.fn(noWait);
    const target = new FlowExport({ name: 'ipfix', receiver: ipfixTo('tcp', first.port), log: silentLog, now: () => 0, wait });
    closing.push(() => target.close());
    add(target, 256);
    await vi.waitFor(async () => expect(await first.received()).toHaveLength(256));
    await first.close();
    add(target, 512, 256);
    await vi.waitFor(() => expect(wait).toHaveBeenCalled());
    const { sent } = target.counts; // TCP does not report that a collector has not read what it had taken
    const second = await IpfixCollector.open({ transport: 'tcp', port: first.port });
    closing.push(() => second.close());
    await vi.waitFor(() => expect(target.counts.sent).toBe(768));
    await vi.waitFor(async () => expect(await second.received()).toHaveLength(768 - sent));
    for (const { gaps, domains } of [...first.sessions, ...second.sessions]) expect([gaps, [...domains]]).toEqual([0, [77]]);
  });

  it('reports its own counts, and keeps datagrams below the MTU of any path', async () => {
    const to = await IpfixCollector.open({ transport: 'udp' });
    closing.push(() => to.close());
    const receiver = ipfixTo('udp', to.port);
    receiver.report({ sent: 5, full: 1, refused: 2, unsent: 3 });
    await receiver.send([{ kind: 'flow', flow: exampleFlow(0) }], AbortSignal.timeout(5_000));
    receiver.close();
    await vi.waitFor(() => expect(to.sessions[0]?.records).toHaveLength(2));
    const values = to.sessions[0]?.records[1]?.values;
    expect(['0/149', '0/42', '0/166'].map((key) => values?.get(key)?.toString('hex'))).toEqual([
      '0000004d',
      '0000000000000005',
      '0000000000000006',
    ]);
  });
});
