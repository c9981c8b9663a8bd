import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { parseIp } from '../../../base/net/ip.ts';
import { zones } from '../../../dataplane/pipeline/well-known.ts';
import type { EndedConnection } from '../../../netlink/conntrack.ts';
import { TrackerEnds, timeoutParameter, trackedEnd } from './tracker-ends.ts';

const ended: EndedConnection = {
  family: 'ipv4',
  ipProtocol: 6,
  zone: zones.ipv4.main,
  id: 1,
  mark: 0x13, // from a pod, through a Service
  tcpState: 7,
  original: { src: parseIp('10.0.0.5'), dst: parseIp('10.96.0.20'), srcPort: 40_000, dstPort: 80 },
  reply: { src: parseIp('10.0.1.9'), dst: parseIp('10.0.0.5'), srcPort: 8_080, dstPort: 40_000 },
  packets: { out: 14, in: 11 },
  bytes: { out: 2_100, in: 9_000 },
  startedMs: 1_000_000,
  removedMs: 1_125_000,
};

it('is the connection to the endpoint, as its client requested it, and ended before its timeout', () => {
  expect(trackedEnd(ended, () => 120_000)).toEqual({
    through: 'pod',
    connection: {
      protocol: 6,
      source: { ip: parseIp('10.0.0.5'), port: 40_000 },
      destination: { ip: parseIp('10.0.1.9'), port: 8_080 },
      asked: { ip: parseIp('10.96.0.20'), port: 80 },
      ...{ packets: { out: 14, in: 11 }, bytes: { out: 2_100, in: 9_000 }, startedMs: 1_000_000, endedMs: 1_005_000 },
    },
  });
});

it.each<[string, Partial<EndedConnection>]>([
  ['of another zone', { zone: 0 }],
  ['that translates sources', { zone: zones.ipv4.snat }],
  ['that was never admitted', { mark: 0x93 }],
  ['without an origin', { mark: 0 }],
])('leaves out a connection %s', (_, change) => {
  expect(trackedEnd({ ...ended, ...change }, () => 0)).toBeUndefined();
});

it('reads the timeout of the last state', () => {
  expect([
    timeoutParameter(6, 7),
    timeoutParameter(6, undefined),
    timeoutParameter(17, undefined),
    timeoutParameter(132, undefined),
  ]).toEqual([
    'nf_conntrack_tcp_timeout_time_wait',
    'nf_conntrack_tcp_timeout_close',
    'nf_conntrack_udp_timeout_stream',
    'nf_conntrack_generic_timeout',
  ]);
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

it('closes the socket for the rest of a second with too many events, and reports that', () => {
  const state = { isOpen: false, opened: 0, closed: 0, missed: 0 };
  let receive: (each: EndedConnection | 'overrun') => void = () => undefined;
  const ends = new TrackerEnds({
    open: (handler) => {
      [state.isOpen, state.opened, receive] = [true, state.opened + 1, handler];
      return { close: () => void (state.isOpen = false) };
    },
    closed: () => void state.closed++,
    missed: () => void state.missed++,
    timeoutMs: () => 0,
  });
  for (let count = 0; count < 10_005; count++) receive(ended);
  expect(state).toEqual({ isOpen: false, opened: 1, closed: 10_000, missed: 1 });
  vi.advanceTimersByTime(1_000);
  receive(ended);
  receive('overrun');
  expect(state).toEqual({ isOpen: true, opened: 2, closed: 10_001, missed: 2 });
  ends.close();
  vi.advanceTimersByTime(5_000);
  expect([state.isOpen, state.opened]).toEqual([false, 2]);
});
