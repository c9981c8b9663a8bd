import { expect, it } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import type { FlowRecord } from './flow-record.ts';
import { FlowSummaryMinutes } from './flow-summaries.ts';

const MINUTE = 60_000;
const opened: FlowRecord = {
  timeMs: 10 * MINUTE,
  event: 'opened',
  verdict: 'allowed',
  reporter: 'source',
  protocol: 6,
  source: { ip: parseIp('10.0.0.5'), port: 40_000, kind: 'pod', name: 'shop/web-7d9f8c6b5-x2k4j' },
  destination: { ip: parseIp('10.0.1.9'), port: 8_080, kind: 'pod', name: 'shop/db-0' },
  service: { ip: parseIp('10.96.0.20'), port: 80, name: 'shop/db' },
  ingress: { verdict: 'allowed', by: ['shop/db-clients spec.ingress[0]'] },
};
const ends = {
  ...{ source: 'shop/web', destination: 'shop/db', service: 'shop/db', protocol: 'TCP', port: 8_080, verdict: 'allowed' },
  reporter: 'source',
  rule: 'shop/db-clients spec.ingress[0]',
};

it('counts connections of workloads, and adds the bytes of closed ones', () => {
  const minutes = new FlowSummaryMinutes();
  for (let count = 0; count < 3; count++) minutes.add({ ...opened, timeMs: 10 * MINUTE + count });
  minutes.add({ ...opened, event: 'closed', timeMs: 11 * MINUTE, bytes: { out: 10, in: 5 }, packets: { out: 1, in: 1 } });
  expect(minutes.since(10 * MINUTE + 5)).toEqual({ sinceMs: 10 * MINUTE, items: [{ ...ends, connections: 3, bytes: '15' }], others: 0 });
  expect(minutes.since(11 * MINUTE).items).toEqual([{ ...ends, connections: 0, bytes: '15' }]);
});

it('forgets minutes after an hour', () => {
  const minutes = new FlowSummaryMinutes();
  minutes.add(opened);
  minutes.add({ ...opened, timeMs: 70 * MINUTE });
  expect(minutes.since(0).items).toMatchObject([{ connections: 1 }]);
});

it('counts exactly what is beyond the limit of a minute', () => {
  const minutes = new FlowSummaryMinutes();
  for (let port = 1; port <= 1_000; port++) minutes.add({ ...opened, destination: { ...opened.destination, port } });
  const { items, others } = minutes.since(0);
  expect([items.length, others]).toEqual([512, 488]);
});

it('names the policy that denied', () => {
  const minutes = new FlowSummaryMinutes();
  const egress = { verdict: 'allowed', by: [] } as const;
  minutes.add({ ...opened, event: 'denied', verdict: 'denied', egress, ingress: { verdict: 'denied', by: ['shop/default-deny'] } });
  expect(minutes.since(0).items).toMatchObject([{ verdict: 'denied', rule: 'shop/default-deny' }]);
});
