import { expect, it } from 'vitest';
import { ReplicaStore } from '../client/replica/replica.ts';
import type { Node } from './node.ts';
import { peersFromNodes } from './peer-source.ts';

const node = (name: string, more: Partial<Node> = {}): Node => ({
  name,
  uid: name,
  podCidrs: [],
  internalIps: [],
  deleting: false,
  ...more,
});

it('has every node except our own, with one transport address per family', () => {
  const store = new ReplicaStore<Node>();
  store.put('me', '1', node('me'));
  store.put('a', '1', node('a', { podCidrs: ['10.1.0.0/22'], internalIps: ['192.168.0.1', '192.168.9.1', 'fd01::1'] }));
  store.put('b', '1', node('b', { internalIps: ['fd01::2'], externalIps: ['203.0.113.2', 'fd01::2'] }));
  const source = peersFromNodes(store, 'me');
  expect([...source.peers()]).toEqual([
    {
      name: 'a',
      podCidrs: ['10.1.0.0/22'],
      transport: { ipv4: '192.168.0.1', ipv6: 'fd01::1' },
      addresses: ['192.168.0.1', '192.168.9.1', 'fd01::1'],
    },
    { name: 'b', podCidrs: [], transport: { ipv6: 'fd01::2' }, addresses: ['fd01::2', '203.0.113.2'] },
  ]);
  expect(source.get('a')?.name).toBe('a');
  expect(source.get('me')).toBeUndefined();
});

it('calls back for peers and for the first sync, not for heartbeats or our own node', () => {
  const store = new ReplicaStore<Node>();
  const source = peersFromNodes(store, 'me');
  const calls: string[][] = [];
  const end = source.subscribe((names) => calls.push([...names]));
  const change = (name: string, version: string, more: Partial<Node> = {}) => {
    store.put(name, version, node(name, more));
    store.flush();
  };
  change('me', '1');
  change('a', '2');
  change('a', '3');
  change('a', '4', { internalIps: ['192.168.0.1'] });
  store.markSynced();
  expect(calls).toEqual([['a'], ['a'], []]);
  expect(source.synced).toBe(true);
  end();
  change('a', '5');
  expect(calls).toHaveLength(3);
});
