import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import { type Node, nodes } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { Peers } from './peers.ts';
import { reservedRanges } from './reserved-ranges.ts';

/** Largest object that an API server stores (etcd's `--max-request-bytes`). */
const storedBytes = 1_500_000;
/**
 * Maximum number of entries: of bridge and host, for a Node's networks and its tunnel addresses, one per family each; and of nftables, for
 * all its addresses.
 */
const entriesMost = 200 + 4 * 128;
const keptBytesMost = 50_000;

const list = <T>(length: number, make: (index: number) => T): T[] => Array.from({ length }, (_, index) => make(index));
const ipOf = (first: number, at: number): string => `${first}.${(at >> 16) & 255}.${(at >> 8) & 255}.${at & 255}`;
const texts = (count: number) => Object.fromEntries(list(count, (at) => [`example.com/label-${at}`, 'x']));

interface Part {
  readonly metadata?: object;
  readonly spec?: object;
  readonly status?: object;
}

/** Repeating fields of a Node that this agent reads, with `count` elements each. */
const fields: Readonly<Record<string, (count: number) => Part>> = {
  'metadata.labels': (count) => ({ metadata: { labels: texts(count) } }),
  'metadata.annotations': (count) => ({ metadata: { annotations: texts(count) } }),
  'spec.podCIDRs': (count) => ({ spec: { podCIDRs: list(count, (at) => `${ipOf(100, (64 << 16) + (at << 8))}/24`) } }),
  'spec.podCIDRs with host bits': (count) => ({ spec: { podCIDRs: list(count, (at) => `${ipOf(100, (64 << 16) + at + 1)}/8`) } }),
  'spec.taints': (count) => ({ spec: { taints: list(count, (at) => ({ key: `taint-${at}`, effect: 'NoSchedule' })) } }),
  'status.addresses, internal': (count) => ({
    status: { addresses: list(count, (at) => ({ type: 'InternalIP', address: ipOf(172, (20 << 16) + at) })) },
  }),
  'status.addresses, external': (count) => ({
    status: { addresses: list(count, (at) => ({ type: 'ExternalIP', address: ipOf(198, (18 << 16) + at) })) },
  }),
  'status.conditions': (count) => ({ status: { conditions: list(count, (at) => ({ type: `Condition${at}`, status: 'True' })) } }),
};

const names = Object.keys(fields);
const pairs = names.flatMap((first, at) => names.slice(at + 1).map((second) => [first, second] as const));

function half(name: string): Part {
  const make = fields[name] ?? (() => ({}));
  const each = (JSON.stringify(make(1_000)).length - JSON.stringify(make(0)).length) / 1_000;
  return make(Math.floor(storedBytes / 2 / each));
}

function nodeWith(...parts: readonly Part[]): Node {
  const lists = parts.flatMap(({ status }) => (status && 'addresses' in status ? (status.addresses as object[]) : []));
  const status = Object.assign({}, ...parts.map((part) => part.status ?? {}), lists.length > 0 ? { addresses: lists } : {});
  const networks = parts.flatMap(({ spec }) => (spec && 'podCIDRs' in spec ? (spec.podCIDRs as string[]) : []));
  const spec = Object.assign({}, ...parts.map((part) => part.spec ?? {}), networks.length > 0 ? { podCIDRs: networks } : {});
  const metadata = Object.assign(
    { name: 'n2', uid: 'n2', creationTimestamp: '2026-01-01T00:00:00Z' },
    ...parts.map((part) => part.metadata ?? {}),
  );
  const node = nodes.project({ metadata, spec, status });
  if (node === undefined) throw new Error('no Node');
  return node;
}

function setUp() {
  const replica = new ReplicaStore<Node>();
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const nodeState = new NodeState(fakeTargets(), events);
  const own = [{ address: parseIp('192.168.77.1'), prefixLength: 24 }];
  const peers = new Peers({
    source: peersFromNodes(replica, 'n1'),
    nodeState,
    environment: () => exampleNode,
    reserved: () => reservedRanges(exampleNode, own, '203.0.113.6'),
    dataPath: 'system',
    turns: new LoopTurns(0),
    log: silentLog,
  });
  peers.follow();
  return { replica, nodeState, peers };
}

it.each(pairs)('the largest Node that an API server stores is bounded: %s and %s', async (first, second) => {
  const { replica, nodeState, peers } = setUp();
  const node = nodeWith(half(first), half(second));
  replica.put('n2', '1', node);
  replica.put('n3', '1', { ...nodeWith(), name: 'n3', uid: 'n3', podCidrs: ['10.10.3.0/24'], internalIps: ['192.168.77.3'] });
  replica.flush();
  await peers.settled();
  const entries = nodeState.bridge.size + nodeState.host.size + nodeState.firewall.size;
  expect(entries).toBeLessThanOrEqual(entriesMost);
  expect(JSON.stringify(node).length).toBeLessThanOrEqual(keptBytesMost);
  expect(peers.objections.of('n2').length).toBeLessThanOrEqual(5);
  // The other Node has its network and tunnel.
  expect([...peers.intents()].find(({ name }) => name === 'n3')?.transport.map(({ text }) => text)).toEqual(['192.168.77.3']);
});

it('a Node names unused entries of its lists', async () => {
  const { replica, peers } = setUp();
  const parts = ['spec.podCIDRs', 'status.addresses, internal', 'status.addresses, external'].map((name) => fields[name]?.(300) ?? {});
  replica.put('n2', '1', nodeWith(...parts));
  replica.flush();
  await peers.settled();
  expect(peers.objections.of('n2')).toEqual([
    'spec.podCIDRs: 284 other networks are not used: a Node has at most 16, each valid',
    'status.addresses: 172 are not used: at most 128 of a type and family are',
    'status.addresses: 172 are not used: at most 128 of a type and family are',
  ]);
});
