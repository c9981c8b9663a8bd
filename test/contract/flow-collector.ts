import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { type Ip, parseIp } from '../../src/base/net/ip.ts';
import type { FlowReceiver } from '../../src/operations/flow-log/export/exported-item.ts';
import { FlowExport } from '../../src/operations/flow-log/export/flow-export.ts';
import type { FlowRecord } from '../../src/operations/flow-log/records/flow-record.ts';
import type { CollectedFlow, FlowCollector } from '../support/flow-collectors/collector.ts';

/** Collector, and the product's receiver that sends to it. */
export interface CollectorPair {
  readonly name: 'otlp' | 'ipfix';
  readonly collector: FlowCollector;
  readonly receiver: FlowReceiver;
}

const count = 2_000;

/** Contract of every collector of flows: it gets each record once, with all that the record has. */
export function flowCollectorContract(name: string, open: () => Promise<CollectorPair>): void {
  describe(`${name} as a collector of flows`, () => {
    let pair: CollectorPair;
    beforeAll(async () => void (pair = await open()), 120_000);
    afterAll(async () => await pair?.collector.close());

    it('gets every record once, with its ends, names, policies and counters', async () => {
      const flows = Array.from({ length: count }, (_, index) => exampleFlow(index));
      const target = new FlowExport({ name: pair.name, receiver: pair.receiver, log: silentLog, now: () => performance.now() });
      for (const flow of flows) target.add({ kind: 'flow', flow });
      await vi.waitFor(() => expect(target.counts.sent).toBe(count), { timeout: 60_000, interval: 50 });
      await target.close();
      let received: readonly CollectedFlow[] = [];
      await vi.waitFor(async () => expect((received = await pair.collector.received())).toHaveLength(count), {
        timeout: 60_000,
        interval: 200,
      });
      expect(sorted(received)).toEqual(sorted(flows.map(expectedOf)));
      expect(target.counts).toEqual({ sent: count, full: 0, refused: 0, unsent: 0 });
    }, 150_000);
  });
}

const start = 1_764_000_000_000;

/** Returns a record; different numbers give different ones, of all kinds. Pure. */
export function exampleFlow(index: number): FlowRecord {
  const isIpv6 = index % 2 === 1;
  const address = (last: number): Ip => parseIp(isIpv6 ? `fd00:10::${last.toString(16)}` : `10.0.${last >> 8}.${last & 255}`);
  const kind = (['opened', 'closed', 'denied', 'refused'] as const)[index % 4] ?? 'opened';
  const isDenied = kind === 'denied' || kind === 'refused';
  const audit = index % 12 === 2;
  return {
    timeMs: start + index,
    event: kind,
    verdict: kind === 'refused' ? 'refused' : audit ? 'would-deny' : isDenied ? 'denied' : 'allowed',
    reporter: index % 3 === 0 ? 'source' : 'destination',
    protocol: index % 5 === 0 ? 17 : 6,
    source: { ip: address(1 + (index % 500)), port: 1_024 + index, kind: 'pod', name: `shop/web-${index % 7}` },
    destination:
      index % 6 === 5
        ? { ip: address(9_999), port: 443, kind: 'outside' }
        : { ip: address(600 + (index % 90)), port: 8_080, kind: 'pod', name: 'data/db-0' },
    ...(index % 3 === 0 && { service: { ip: parseIp(isIpv6 ? 'fd00:96::1' : '10.96.0.20'), port: 80, name: 'data/db' } }),
    egress: { verdict: 'allowed', by: ['shop/out spec.egress[0]', 'shop/other spec.egress[1]'] },
    ...(isDenied && { ingress: { verdict: 'denied', by: ['data/closed'] }, reason: 'no rule of spec.ingress allows it' }),
    ...(kind === 'closed' && {
      packets: { out: index, in: index * 2 },
      bytes: { out: index * 1_000_000_007, in: 2 ** 52 + index },
      startedMs: start - 60_000 + index,
      endedMs: start - 1_000 + index,
    }),
  };
}

function expectedOf(flow: FlowRecord): CollectedFlow {
  const { timeMs, event, verdict, protocol, source, destination, service, bytes, packets, ingress } = flow;
  const both = (counts: { readonly out: number; readonly in: number }) => ({ out: BigInt(counts.out), in: BigInt(counts.in) });
  return {
    ...{ timeMs, protocol, isEnd: event === 'closed' },
    verdict: verdict === 'refused' ? 'denied' : verdict,
    source: `${source.ip.text} ${source.port}`,
    destination: `${destination.ip.text} ${destination.port}`,
    sourcePod: source.name ?? '',
    destinationPod: destination.name ?? '',
    service: service ? `${service.name} ${service.ip.text} ${service.port}` : '',
    egressPolicy: 'shop/out',
    ingressPolicy: ingress ? 'data/closed' : '',
    ...(bytes && { bytes: both(bytes) }),
    ...(packets && { packets: both(packets) }),
  };
}

function sorted(flows: readonly CollectedFlow[]): readonly CollectedFlow[] {
  return [...flows].sort((a, b) => a.timeMs - b.timeMs);
}
