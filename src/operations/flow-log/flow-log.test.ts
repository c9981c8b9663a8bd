import { describe, expect, it } from 'vitest';
import { type Ip, parseIp } from '../../base/net/ip.ts';
import type { PolicyMatrix } from '../../policy/matrix/matrix.ts';
import { FlowLog, type FlowLogOptions } from './flow-log.ts';
import type { DeniedConnection, SeenConnection } from './sources/attribution.ts';

const owners: Readonly<Record<string, string>> = {
  '10.0.0.5': 'shop/web-1',
  '10.0.0.6': 'ops/x-0',
  '10.0.1.9': 'shop/db-0',
  '192.0.2.1': 'node node-1',
};
const none: PolicyMatrix['ingress'] = { identities: new Map(), relations: new Map() } as never;
const matrix: PolicyMatrix = {
  subjects: new Map([['shop/web-1', { addresses: ['10.0.0.5'] }]]) as never,
  ownNode: new Set(['192.0.2.1']),
  ...{ ingress: none, egress: none },
};

function opened(more: Partial<FlowLogOptions> = {}) {
  const clock = { wall: 1_000_000, steady: 0 };
  const log = new FlowLog({
    ...{ openings: 2, records: 8, matrix: () => matrix, matrixRevision: () => 1, notEnforcedFor: () => undefined },
    names: {
      ownerOf: ({ text }: Ip) => owners[text],
      isInPodNetwork: ({ text }) => text.startsWith('10.0.'),
      serviceAt: ({ text }, port) => (text === '10.96.0.20' && port === 80 ? 'shop/db' : undefined),
    },
    clock: { wallMs: () => clock.wall, steadyMs: () => clock.steady },
    ...more,
  });
  return { log, clock };
}

const connection = (source: string, destination: string, asked?: string): SeenConnection => ({
  protocol: 6,
  source: { ip: parseIp(source), port: 40_000 },
  destination: { ip: parseIp(destination), port: 8_080 },
  asked: { ip: parseIp(asked ?? destination), port: asked === undefined ? 8_080 : 80 },
});

const connectionFrom = (port: number): SeenConnection => ({
  ...connection('10.0.0.5', '10.0.1.9'),
  source: { ip: parseIp('10.0.0.5'), port },
});

const echo: SeenConnection = { protocol: 1, source: { ip: parseIp('10.0.0.5') }, destination: { ip: parseIp('10.0.1.9') } };

it('records ends, Service and the decision of the pod that is here', () => {
  const { log } = opened();
  log.opened({ connection: connection('10.0.0.5', '10.0.1.9', '10.96.0.20') }, 'pod');
  expect(log.get(0)).toMatchObject({
    ...{ event: 'opened', verdict: 'allowed', reporter: 'source' },
    source: { kind: 'pod', name: 'shop/web-1' },
    destination: { kind: 'pod', name: 'shop/db-0' },
    service: { name: 'shop/db', port: 80 },
    egress: { verdict: 'allowed', by: [] },
  });
  log.opened({ connection: connection('10.0.1.9', '10.0.0.5') }, 'tunnel');
  expect(log.get(1)).toMatchObject({ reporter: 'destination', ingress: { verdict: 'allowed', by: [] } });
  expect(log.get(1)?.service).toBeUndefined();
});

it.each([
  ['10.0.0.77', { kind: 'unknown' }],
  ['198.51.100.7', { kind: 'outside' }],
  ['192.0.2.1', { kind: 'node', name: 'node-1' }],
])('names the end %s', (address, end) => {
  const { log } = opened();
  log.opened({ connection: connection('10.0.0.5', address) }, 'pod');
  expect(log.get(0)?.destination).toMatchObject(end);
});

describe('a second packet that opens a connection', () => {
  const udp: SeenConnection = { ...connection('10.0.0.5', '10.0.1.9', '10.96.0.20'), protocol: 17 };
  const syn = (sequence: number) => ({ connection: connection('10.0.0.5', '10.0.1.9'), tcp: { sequence, acknowledgment: 0, flags: 2 } });

  it.each([
    ['UDP', { connection: udp }, { connection: udp }],
    ['TCP', syn(77), syn(77)],
  ])('is counted with the first over %s', (_, first, second) => {
    const { log } = opened();
    for (const packet of [first, second, second, second]) log.opened(packet, 'pod');
    expect([log.numbers.next, log.lossesTotal.rate, log.get(0)?.repeated]).toEqual([1, 0, 3]);
  });

  it.each([
    ['with another sequence number', syn(77), syn(78), 0],
    ['ten seconds later', { connection: udp }, { connection: udp }, 10_000],
    ['to another endpoint', { connection: udp }, { connection: { ...udp, destination: connectionFrom(1).source } }, 0],
    ['of ICMP, which has no ports', { connection: echo }, { connection: echo }, 0],
  ])('is another connection %s', (_, first, second, laterMs) => {
    const { log, clock } = opened();
    log.opened(first, 'pod');
    clock.wall += laterMs;
    log.opened(second, 'pod');
    expect([log.get(0)?.repeated, log.get(1)?.event]).toEqual([undefined, 'opened']);
  });

  it('is another connection after the end of the first', () => {
    const { log } = opened();
    log.opened(syn(77), 'pod');
    log.ended({ ...syn(78), isReply: false }, 'pod');
    log.opened(syn(77), 'pod');
    expect([0, 1, 2].map((number) => log.get(number)?.event)).toEqual(['opened', 'closed', 'opened']);
  });
});

it('counts openings beyond the rate of the node, and keeps the share of another namespace', () => {
  const { log, clock } = opened();
  for (let count = 0; count < 5; count++) log.opened({ connection: connectionFrom(40_000 + count) }, 'pod');
  expect([log.numbers.next, log.lossesTotal.rate]).toEqual([2, 3]);
  log.opened({ connection: connection('10.0.0.6', '10.0.1.9') }, 'pod');
  expect(log.numbers.next).toBe(3);
  clock.wall += 10 * 60_000;
  expect([log.lossesSince(clock.wall).rate, log.lossesSince(0).rate]).toEqual([0, 3]);
});

const denied: DeniedConnection = { ...connection('10.0.0.6', '10.0.0.5'), direction: 'ingress', by: ['shop/closed'], reason: 'no rule' };

it('records a denied connection once, counts its further packets, and marks it when its client got an answer', () => {
  const { log, clock } = opened();
  log.denied(denied);
  log.denied(denied);
  log.answered(denied);
  expect(log.get(0)).toMatchObject({
    event: 'refused',
    verdict: 'refused',
    repeated: 1,
    ingress: { verdict: 'denied', by: ['shop/closed'] },
  });
  clock.steady += 11_000;
  log.denied(denied);
  expect(log.get(1)).toMatchObject({ event: 'denied', verdict: 'denied' });
});

it('reports as would-deny what policies deny while they are not enforced, with the reason', () => {
  const { log } = opened({ notEnforcedFor: (pod) => (pod === 'shop/web-1' ? 'policy mode audit' : undefined) });
  log.denied(denied);
  expect(log.get(0)).toMatchObject({ event: 'denied', verdict: 'would-deny', reason: 'no rule; policy mode audit' });
});

it('records a connection to a pod whose policies are suspended with the reason, and to another pod as allowed', () => {
  const isolated = { addresses: ['10.0.0.5'], ingress: { id: 1, text: 'x', isolatedBy: ['shop/closed'] } };
  const closedTo: PolicyMatrix = { ...matrix, subjects: new Map([['shop/web-1', isolated]]) };
  const suspended = 'policies are suspended until noon: incident 7';
  const { log } = opened({ matrix: () => closedTo, notEnforcedFor: (pod) => (pod === 'shop/web-1' ? suspended : undefined) });
  log.opened({ connection: connection('10.0.1.9', '10.0.0.5') }, 'tunnel');
  expect(log.get(0)).toMatchObject({ event: 'opened', verdict: 'would-deny', reason: suspended, ingress: { verdict: 'denied' } });
  log.opened({ connection: connection('10.0.0.5', '10.0.1.9') }, 'pod');
  expect(log.get(1)).toMatchObject({ event: 'opened', verdict: 'allowed' });
  expect(log.get(1)?.reason).toBeUndefined();
});

it('never goes back in time, and names the time from which it is complete', () => {
  const { log, clock } = opened({ openings: 100 });
  log.opened({ connection: connection('10.0.0.5', '10.0.1.9') }, 'pod');
  clock.wall -= 60_000;
  log.opened({ connection: connectionFrom(40_001) }, 'pod');
  expect(log.get(1)?.timeMs).toBe(1_000_000);
  expect(log.completeFromMs).toBe(1_000_000);
  clock.wall = 2_000_000;
  for (let count = 0; count < 8; count++) log.opened({ connection: connectionFrom(41_000 + count) }, 'pod');
  expect(log.completeFromMs).toBe(2_000_000);
});

it('records connections to a Service without endpoints', () => {
  const { log } = opened();
  log.refused({ ...connection('10.0.0.5', '10.96.0.20'), destination: { ip: parseIp('10.96.0.20'), port: 80 } }, 'no endpoint');
  expect(log.get(0)).toMatchObject({ event: 'refused', service: { name: 'shop/db' }, reason: 'no endpoint' });
});

it('records the end of a connection with the names of its opening, also if the address has another owner by then', () => {
  const changed: Record<string, string> = { ...owners };
  const { log, clock } = opened({
    names: { ownerOf: ({ text }: Ip) => changed[text], isInPodNetwork: () => true, serviceAt: () => 'shop/db' },
  });
  const seen = connection('10.0.0.5', '10.0.1.9', '10.96.0.20');
  log.opened({ connection: seen }, 'pod');
  changed['10.0.0.5'] = 'ops/other';
  clock.wall += 5_000;
  const counters = { packets: { out: 3, in: 2 }, bytes: { out: 300, in: 200 } };
  log.closed({ ...seen, ...counters, startedMs: 1_000_000, endedMs: 1_000_800 }, 'pod');
  expect(log.get(1)).toMatchObject({
    ...{ event: 'closed', verdict: 'allowed', reporter: 'source', startedMs: 1_000_000, endedMs: 1_000_800, ...counters },
    source: { name: 'shop/web-1' },
    service: { name: 'shop/db' },
    egress: { verdict: 'allowed' },
  });
});

it('names the ends of a connection whose opening is not recorded any more by their present owners', () => {
  const { log } = opened();
  log.closed({ ...connection('10.0.0.5', '198.51.100.7'), endedMs: 5 }, 'pod');
  expect(log.get(0)).toMatchObject({ event: 'closed', source: { name: 'shop/web-1' }, destination: { kind: 'outside' } });
});

const tcp = (sequence: number, acknowledgment: number, flags = 0x10) => ({ sequence, acknowledgment, flags });

it('records the end of a connection once, by the packet of either end, with the time and the bytes since its opening', () => {
  const { log, clock } = opened({ openings: 100 });
  const seen = connection('10.0.0.5', '10.0.1.9', '10.96.0.20');
  log.opened({ connection: seen }, 'pod');
  // Replies have the address of the Service. Numbers begin again after 2^32.
  const replied = { ...seen, destination: { ip: parseIp('10.96.0.20'), port: 80 } };
  log.replied({ connection: replied, isReply: true, tcp: tcp(4_000, 0xffff_fff0, 0x12) });
  clock.wall += 800;
  log.ended({ connection: replied, isReply: true, tcp: tcp(4_501, 0x10, 0x14) }, 'tunnel');
  log.ended({ connection: seen, isReply: false, tcp: tcp(0x10, 4_501, 0x11) }, 'pod');
  expect(log.numbers.next).toBe(2);
  expect(log.get(1)).toMatchObject({
    ...{ event: 'closed', reporter: 'source', startedMs: 1_000_000, endedMs: 1_000_800 },
    ...{ bytes: { out: 0x20, in: 500 }, estimated: true },
    source: { name: 'shop/web-1' },
    destination: { name: 'shop/db-0', port: 8_080 },
    service: { name: 'shop/db' },
  });
  expect(log.get(1)?.packets).toBeUndefined();
});

it('records connections from before the log up to a rate of their own: none is a lost opening, and each has another chance', () => {
  const { log, clock } = opened();
  const before = (port: number) => ({ ...connection('10.0.0.5', '10.0.1.9'), source: { ip: parseIp('10.0.0.5'), port } });
  const see = (port: number) => log.seen({ connection: before(port), isReply: false, tcp: tcp(port, 1) }, 'pod');
  for (let port = 1; port <= 5; port++) see(port);
  expect([log.numbers.next, log.lossesTotal.rate]).toEqual([2, 0]);
  for (let count = 0; count < 2; count++) log.opened({ connection: connectionFrom(40_000 + count) }, 'pod');
  expect([log.numbers.next, log.lossesTotal.rate]).toEqual([4, 0]);
  clock.steady += 1_000;
  see(5);
  expect(log.get(4)).toMatchObject({ event: 'seen', source: { port: 5 } });
});

it('estimates no bytes if the begin was not seen, or the segment acknowledges nothing', () => {
  const { log } = opened({ openings: 100 });
  const seen = connection('10.0.0.5', '10.0.1.9');
  log.opened({ connection: seen }, 'pod');
  log.ended({ connection: seen, isReply: false, tcp: tcp(1, 1, 0x11) }, 'pod');
  const other = { ...seen, source: { ip: parseIp('10.0.0.5'), port: 7 } };
  log.opened({ connection: other }, 'pod');
  log.replied({ connection: other, isReply: true, tcp: tcp(1, 1, 0x12) });
  log.ended({ connection: other, isReply: true, tcp: tcp(9, 0, 0x04) }, 'tunnel');
  expect([log.get(1), log.get(3)].map((flow) => [flow?.event, flow?.bytes, flow?.estimated])).toEqual(
    Array(2).fill(['closed', undefined, undefined]),
  );
});

it('records a connection that was open before the log was on, once, and its bytes since then', () => {
  const { log, clock } = opened({ openings: 100 });
  const before = connection('10.0.0.5', '10.0.1.9', '10.96.0.20');
  for (const sequence of [1_000, 2_000]) log.seen({ connection: before, isReply: false, tcp: tcp(sequence, 50) }, 'pod');
  const since = { ...before, source: { ip: parseIp('10.0.0.5'), port: 7 } };
  log.opened({ connection: since }, 'pod');
  log.seen({ connection: since, isReply: false, tcp: tcp(1, 1) }, 'pod');
  clock.wall += 5_000;
  log.ended({ connection: before, isReply: false, tcp: tcp(4_000, 60, 0x11) }, 'pod');
  expect([0, 1, 2, 3].map((number) => log.get(number)?.event)).toEqual(['seen', 'opened', 'closed', undefined]);
  expect(log.get(0)).toMatchObject({ service: { name: 'shop/db' }, source: { name: 'shop/web-1' }, reporter: 'source' });
  expect(log.get(2)).toMatchObject({ bytes: { out: 3_000, in: 10 }, estimated: true });
  expect(log.get(2)?.startedMs).toBeUndefined(); // not known
});

it('records the end of a connection that it did not see, once, and counts ends beyond the rate', () => {
  const { log } = opened();
  const end = { connection: connection('10.0.1.9', '10.0.0.5'), isReply: false };
  for (let count = 0; count < 3; count++) log.ended(end, 'tunnel');
  expect(log.numbers.next).toBe(1);
  expect(log.get(0)).toMatchObject({ event: 'closed', reporter: 'destination', source: { name: 'shop/db-0' } });
  expect(log.get(0)?.startedMs).toBeUndefined();
  for (let port = 1; port < 5; port++)
    log.ended({ connection: { ...end.connection, source: { ip: parseIp('10.0.1.9'), port } }, isReply: true }, 'pod');
  expect(log.get(1)).toMatchObject({ event: 'closed', reporter: 'destination' });
  expect([log.numbers.next, log.lossesTotal.ends]).toEqual([2, 3]);
});

it('knows which TCP connections are open: recorded, and without a recorded end', () => {
  const { log } = opened({ openings: 100 });
  const [first, second] = [
    connection('10.0.0.5', '10.0.1.9'),
    { ...connection('10.0.0.5', '10.0.1.9'), source: { ip: parseIp('10.0.0.5'), port: 7 } },
  ];
  log.opened({ connection: first }, 'pod');
  log.opened({ connection: second }, 'pod');
  log.opened({ connection: { ...first, protocol: 17 } }, 'pod');
  log.ended({ connection: first, isReply: false }, 'pod');
  const open = Array.from({ length: log.numbers.next }, (_, number) => log.openAt(number)).filter((flow) => flow !== undefined);
  expect(open.map(({ source }) => source.port)).toEqual([7]);
});

it('shows a connection of the tracker as its opening, or with present names, and records nothing', () => {
  const { log, clock } = opened();
  const known = connection('10.0.0.5', '10.0.1.9', '10.96.0.20');
  log.opened({ connection: known }, 'pod');
  clock.wall += 5_000;
  expect(log.nowOpen(known)).toMatchObject({ event: 'opened', timeMs: 1_000_000, service: { name: 'shop/db' } });
  expect(log.nowOpen(connection('10.0.1.9', '10.0.0.5'))).toMatchObject({
    ...{ event: 'seen', reporter: 'destination', timeMs: 1_005_000 },
    ...{ source: { name: 'shop/db-0' }, destination: { name: 'shop/web-1' } },
  });
  expect(log.numbers.next).toBe(1);
});
