import { expect, it } from 'vitest';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import { PolicyEngine } from '../engine/policy-engine.ts';
import { ObjectFeed } from './object-feed.ts';

it('updates nodes again whose networks depend on a node that changed during the update', async () => {
  const nodes = new ReplicaStore<Node>();
  const put = (name: string): void => nodes.put(name, '1', { name, uid: name, podCidrs: [], internalIps: [], deleting: false });
  put('n1');
  nodes.flush();
  const calls: string[] = [];
  const decided: string[][] = [[], ['n1', 'n2']];
  const feed = new ObjectFeed({
    engine: new PolicyEngine('own'),
    sources: {
      nodes,
      namespaces: new ReplicaStore<Namespace>(),
      policies: new ReplicaStore<NetworkPolicy>(),
      clusterPolicies: new ReplicaStore(),
      pods: new ReplicaStore<PolicyPod>(),
    },
    nodeNetworks: {
      of: (name) => {
        calls.push(`of ${name}`);
        if (calls.length === 2) {
          put('n2');
          nodes.flush();
        }
        return [];
      },
      settle: async () => {
        calls.push('settle');
        return decided.shift() ?? [];
      },
      subscribe: () => () => undefined,
    },
    isLocal: () => false,
    recent: { note: () => undefined },
    turns: new LoopTurns(5),
    changed: () => undefined,
  });
  feed.follow();
  await feed.work();
  expect(calls).toEqual(['settle', 'of n1', 'of n2', 'settle', 'of n1', 'of n2', 'settle']);
  expect(feed.isBehind).toBe(false);
});
