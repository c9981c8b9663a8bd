import { beforeEach, describe, expect, it, vi } from 'vitest';
import { encodeFrame } from '../../../test/support/frame.ts';
import { createLogTo } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { PacketIn } from '../../openflow/packet.ts';
import { DeniedLog } from './denied-log.ts';

const [ethSrc, ethDst] = [parseMac('0e:00:00:00:00:01'), parseMac('0e:00:00:00:00:02')];
const db = { namespace: 'shop', name: 'db', uid: 'u' };
const agent = { namespace: 'ops', name: 'agent', uid: 'v' };
const pods = new Map([
  [7, db],
  [8, agent],
]);
const peer = '10.10.1.7';

let denialOfDb: ReturnType<ConstructorParameters<typeof DeniedLog>[0]['denialOf']>;
let nowMs: number;
let mode: PolicyMode;
let written: ReadonlySet<number>;
let watchers: number;
let names: Map<string, string>;
let lines: Record<string, unknown>[];
let raw: string[];
let receive: (packet: PacketIn) => void;
let log: DeniedLog;

beforeEach(() => {
  [nowMs, mode, written, watchers, lines, raw] = [1_000, 'enforce', new Set([7, 8]), 0, [], []];
  names = new Map([[peer, 'shop/far']]);
  denialOfDb = { policies: ['shop/deny-all'] };
  log = new DeniedLog({
    packets: { on: (reason, take) => void (reason === 'denied' && (receive = take)) },
    pods: {
      podAt: (ofPort) => pods.get(ofPort),
      podOfMeter: (meter) => pods.get(meter),
      isWritten: (pod) => [...pods].some(([ofPort, each]) => each === pod && written.has(ofPort)),
      watch: () => {
        watchers++;
        return () => void watchers--;
      },
    },
    denialOf: (pod) => (pod === 'shop/db' ? denialOfDb : { policies: [], closed: 'nothing is\nknown' }),
    ownerOf: ({ text }) => names.get(text),
    mode: () => mode,
    log: createLogTo('info', (line) => {
      raw.push(line);
      lines.push(JSON.parse(line) as Record<string, unknown>);
    }),
    now: () => nowMs,
  });
});

it('names the rule of a ClusterNetworkPolicy, and the pod itself behind a Service', () => {
  denialOfDb = { policies: ['tenants'], rule: { name: 'tenants spec.ingress[1]', tier: 'Admin' } };
  denied({ from: '169.254.0.253' });
  expect(lines.at(-1)).toMatchObject({
    policies: ['tenants'],
    rule: 'tenants spec.ingress[1]',
    tier: 'Admin',
    why: 'tenants spec.ingress[1] denies it',
    peer: 'shop/db through a Service',
  });
});

/** Sends a packet to `pod` that is denied. */
function denied({ ofPort = 7, from = peer, portDst = 5432 } = {}): void {
  const packet = { ethSrc, ethDst, payload: 'ipv4', ttl: 64, protocol: 'tcp', portSrc: 40_000, portDst } as const;
  const data = encodeFrame({ ...packet, ipSrc: parseIp(from), ipDst: parseIp('10.10.0.5') });
  receive({ table: tables.ingressVerdict.id, reason: 'action', fields: { reg1: ofPort }, fullLength: data.length, data });
}

function pass(ms: number): void {
  nowMs += ms;
  log.sweep();
}

describe('a line', () => {
  it('names the packet and the policies that denied it', () => {
    denied();
    expect(lines).toEqual([
      {
        level: 'info',
        time: expect.any(String),
        msg: 'NetworkPolicy denied',
        verdict: 'denied',
        direction: 'ingress',
        policies: ['shop/deny-all'],
        why: 'no rule of spec.ingress allows it',
        pod: 'shop/db',
        podAddress: '10.10.0.5',
        peer: 'shop/far',
        peerAddress: peer,
        protocol: 'TCP',
        port: 5432,
        sourcePort: 40_000,
        repeated: 0,
      },
    ]);
  });

  it('reports that it passed, and the reason of a blocked pod', () => {
    mode = 'audit';
    denied({ ofPort: 8, from: '192.0.2.1' });
    expect(lines).toMatchObject([{ verdict: 'would deny', why: 'blocked: nothing is?known', policies: [], peer: '192.0.2.1' }]);
  });

  it('has no terminal control sequences', () => {
    names.set(peer, 'a\u001b[2J\u009b\u2028"}\n/b');
    denied();
    expect(raw[0]?.trimEnd()).toMatch(/^[\x20-\x7e]+$/);
    expect(lines[0]?.['peer']).toBe('a?[2J??"}?/b');
  });

  it('stands for a second for equal ones, and then reports their number', () => {
    for (let n = 0; n < 5; n++) denied();
    denied({ portDst: 80 });
    expect(lines.map(({ port, repeated }) => [port, repeated])).toEqual([
      [5432, 0],
      [80, 0],
    ]);
    pass(999);
    expect(lines).toHaveLength(2);
    pass(1);
    expect(lines.slice(2).map(({ port, repeated }) => [port, repeated])).toEqual([[5432, 4]]);
    pass(1_000);
    denied();
    expect(lines.slice(3).map(({ port, repeated }) => [port, repeated])).toEqual([[5432, 0]]);
    expect(log.counters).toEqual({ lines: 3, repeated: 4, suppressed: 0, metered: 0 });
  });
});

describe('a flood', () => {
  it('of one namespace keeps the lines of another, and the next line reports the omitted ones', () => {
    for (let n = 0; n < 1_000; n++) denied({ portDst: 1 + n });
    const ofShop = lines.length;
    expect(ofShop).toBeLessThanOrEqual(51);
    denied({ ofPort: 8 });
    expect(lines.at(-1)).toMatchObject({ pod: 'ops/agent' });
    expect(lines.at(-1)).not.toHaveProperty('unlogged');
    pass(1_000);
    denied({ portDst: 9_999 });
    expect(lines.at(-1)).toMatchObject({ pod: 'shop/db', unlogged: 1_000 - ofShop });
    expect(log.counters.suppressed).toBe(1_000 - ofShop);
  });

  it('that OVS dropped is counted, and reported with the next line', () => {
    log.metered(7, 300);
    log.metered(99, 5);
    denied();
    expect(lines).toMatchObject([{ unlogged: 300 }]);
    expect(log.counters.metered).toBe(300);
  });

  it('is not even read beyond a rate, should OVS send all of it', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    try {
      denied();
      for (let n = 0; n < 5_000; n++) denied();
      expect(log.counters.suppressed).toBeGreaterThan(1_000);
    } finally {
      vi.useRealTimers();
    }
  });
});

describe('pairs', () => {
  it('are counted during observation, without log lines, up to a maximum number', () => {
    written = new Set();
    denied();
    const { pairs, end } = log.collect();
    expect(watchers).toBe(1);
    denied();
    denied();
    denied({ ofPort: 8 });
    expect(pairs.pairs.map(({ pod, packets }) => [pod, packets])).toEqual([
      ['shop/db', 2],
      ['ops/agent', 1],
    ]);
    for (let n = 0; n < 1_500; n++) denied({ portDst: 6_000 + n });
    expect([pairs.pairs.length, pairs.others]).toEqual([1_000, 502]);
    end();
    denied();
    expect([pairs.pairs[0]?.packets, watchers, lines.length]).toEqual([2, 0, 0]);
    expect(log.describe('shop/db', pairs.pairs[0]?.packet ?? expect.fail())).toMatchObject({ pod: 'shop/db', port: 5432 });
  });
});
