import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import { recordedPair } from './recorded-pair.ts';
import type { FlowRecord } from './records/flow-record.ts';

const [web, db, service] = [parseIp('10.0.0.5'), parseIp('10.0.1.9'), parseIp('10.96.0.20')];
const record = (more: Partial<FlowRecord> = {}): FlowRecord => ({
  ...{ timeMs: 1, event: 'opened', verdict: 'allowed', reporter: 'source', protocol: 6 },
  source: { ip: web, port: 40_000, kind: 'pod', name: 'shop/web-0' },
  destination: { ip: db, port: 5432, kind: 'pod', name: 'shop/db-0' },
  ...more,
});
const logOf = (...records: readonly FlowRecord[]) => ({
  numbers: { oldest: 7, next: 7 + records.length },
  get: (number: number) => {
    const found = records[number - 7];
    return found && { ...found, number };
  },
});
const pair = (more: Partial<FlowRecord>) => recordedPair(logOf(record(more)), 0);

it('is the sender with the address and the port that it requested', () => {
  expect(pair({})).toEqual({ from: 'shop/web-0', to: '10.0.1.9', port: '5432/TCP', family: 'ipv4' });
  expect(pair({ service: { ip: service, port: 80 }, protocol: 17 })).toMatchObject({ to: '10.96.0.20', port: '80/UDP' });
  expect(pair({ protocol: 1, destination: { ip: db, kind: 'pod' } })).toMatchObject({ port: 'icmp' });
});

it('is not one that another node or a host opened, and not of a protocol that a trace does not know', () => {
  expect(pair({ reporter: 'destination' })).toBeUndefined();
  expect(pair({ source: { ip: web, kind: 'outside' } })).toBeUndefined();
  expect(pair({ protocol: 47, destination: { ip: db, kind: 'pod' } })).toBeUndefined();
  expect(pair({ protocol: 47 })).toBeUndefined();
});

it('is any of the records, and the next one where it has none', () => {
  const log = logOf(record({ reporter: 'destination' }), record({ protocol: 17 }), record({ protocol: 132 }));
  expect([0, 0.4, 0.99].map((chance) => recordedPair(log, chance)?.port)).toEqual(['5432/UDP', '5432/UDP', '5432/SCTP']);
  expect(recordedPair(logOf(), 0.5)).toBeUndefined();
});
