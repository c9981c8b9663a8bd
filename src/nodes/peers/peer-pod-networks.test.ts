import { expect, it } from 'vitest';
import { exampleNode } from '../../../test/support/example-node.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { parseIp } from '../../base/net/ip.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import { peersFromNodes } from '../../kubernetes/resources/peer-source.ts';
import { PeerPodNetworks } from './peer-pod-networks.ts';
import { reservedRanges } from './reserved-ranges.ts';

function setUpUnfollowed() {
  const nodes = new ReplicaStore<Node>();
  let addresses = [{ address: parseIp('192.168.77.1'), prefixLength: 24 }];
  const networks = new PeerPodNetworks({
    source: peersFromNodes(nodes, 'n1'),
    reserved: () => reservedRanges(exampleNode, addresses, '203.0.113.6'),
  });
  let version = 0;
  const put = (name: string, podCidrs: readonly string[], internalIps: readonly string[] = []): void => {
    const createdAt = nodes.get(name)?.createdAt ?? `2026-01-01T00:00:${String(++version).padStart(2, '0')}Z`;
    nodes.put(name, String(++version), { name, uid: name, podCidrs, internalIps, createdAt, deleting: false });
    nodes.flush();
  };
  const bind = (text: string): void => {
    addresses = [...addresses, { address: parseIp(text), prefixLength: 32 }];
    networks.reservedChanged();
  };
  const remove = (name: string): void => {
    nodes.remove(name, String(++version));
    nodes.flush();
  };
  const settle = async () => [...(await networks.settle(new LoopTurns(1)))].toSorted();
  const follow = () => void networks.follow();
  return { networks, put, remove, bind, settle, follow };
}

function setUp() {
  const all = setUpUnfollowed();
  all.follow();
  return all;
}

it('compares nodes that were listed after it was made and before it follows changes', async () => {
  const { networks, put, settle, follow } = setUpUnfollowed();
  put('n2', ['10.20.0.0/24']);
  put('n3', ['10.20.0.0/16']);
  follow();
  expect(await settle()).toEqual(['n2', 'n3']);
  expect(networks.of('n3')).toEqual([]);
});

it('passes permitted pod networks of a node to policy, and none that belong to others', async () => {
  const { networks, put, settle } = setUp();
  put('n2', ['10.20.0.0/24', 'fd00:20::/64'], ['192.168.77.2']);
  put('link', ['192.168.77.0/24']);
  put('everything', ['0.0.0.0/0', '::/0']);
  put('pods of n2', ['10.20.0.0/16', 'fd00:20::/48']);
  put('tunnel of n2', ['192.168.0.0/16']);
  put('API server', ['203.0.113.0/24']);
  put('loopback', ['127.0.0.0/8']);
  expect(await settle()).toHaveLength(7);
  expect(networks.of('n2')).toEqual(['10.20.0.0/24', 'fd00:20::/64']);
  for (const name of ['link', 'everything', 'pods of n2', 'tunnel of n2', 'API server', 'loopback']) expect(networks.of(name)).toEqual([]);
  expect(networks.of('n1')).toBeUndefined();
});

it('names nodes that gain a network when another is deleted', async () => {
  const { networks, put, remove, settle } = setUp();
  put('n2', ['10.20.0.0/24']);
  put('n3', ['10.20.0.0/16']);
  await settle();
  remove('n2');
  expect(await settle()).toEqual(['n2', 'n3']);
  expect(networks.of('n3')).toEqual(['10.20.0.0/16']);
});

it('names nodes that lose a network to an address of this node', async () => {
  const { networks, put, bind, settle } = setUp();
  put('n2', ['10.20.0.0/24']);
  put('n3', ['10.30.0.0/24']);
  await settle();
  const named: string[] = [];
  networks.subscribe((names) => named.push(...names));
  bind('10.20.0.7');
  expect(named).toEqual(['n2']);
  expect(await settle()).toEqual(['n2']);
  expect(networks.of('n2')).toEqual([]);
});
