import fc from 'fast-check';
import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { NodeState } from '../../dataplane/targets/node-state.ts';
import { fakeTargets } from '../../dataplane/targets/testing/fake-targets.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { Peers } from './peers.ts';
import { reservedRanges } from './reserved-ranges.ts';

const addresses = [{ address: parseIp('192.168.77.1'), prefixLength: 24 }];

function setUp() {
  const nodes = new ReplicaStore<Node>();
  const events = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const peers = new Peers({
    source: peersFromNodes(nodes, 'n1'),
    nodeState: new NodeState(fakeTargets(), events),
    environment: () => exampleNode,
    reserved: () => reservedRanges(exampleNode, addresses, '203.0.113.6'),
    dataPath: 'system',
    turns: new LoopTurns(1),
    log: silentLog,
  });
  peers.follow();
  let version = 0;
  const put = (name: string, podCidrs: readonly string[]): void => {
    const createdAt = `2026-01-01T00:00:${String(++version).padStart(2, '0')}Z`;
    nodes.put(name, String(version), { name, uid: name, podCidrs, internalIps: ['192.168.77.9'], createdAt, deleting: false });
    nodes.flush();
  };
  return { put, gatewaysOf: (name: string) => peers.gatewaysOf(name).map(({ text }) => text) };
}

const claimed = [
  ...['127.0.0.1/32', '127.0.0.0/8', '10.10.9.0/32', '10.10.9.0/31', '10.10.9.0/24', '0.0.0.0/0', '192.168.77.0/24', '224.0.0.0/24'],
  ...['::1/128', '::/0', 'fe80::/64', 'fd00:10:9::/128', 'fd00:10:9::/127', 'fd00:10:9::/64', 'ff02::/16'],
];
const possible = ['10.10.9.1', 'fd00:10:9::1'];

it('gateways of a peer are those of the pod networks that this node accepts, whatever its Node object claims', () => {
  fc.assert(
    fc.property(fc.array(fc.subarray(claimed, { minLength: 1, maxLength: 3 }), { minLength: 1, maxLength: 4 }), (changes) => {
      const { put, gatewaysOf } = setUp();
      for (const podCidrs of changes) {
        put('rogue', podCidrs);
        expect(gatewaysOf('rogue').filter((text) => !possible.includes(text))).toEqual([]);
      }
    }),
  );
});

it('a peer has one gateway for each of its pod networks, and one that is unknown has none', () => {
  const { put, gatewaysOf } = setUp();
  put('n2', ['10.10.9.0/24', 'fd00:10:9::/64']);
  expect(gatewaysOf('n2')).toEqual(possible);
  expect(gatewaysOf('n9')).toEqual([]);
});
