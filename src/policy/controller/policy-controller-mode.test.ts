import { describe, expect, it } from 'vitest';
import { acknowledgingNode } from '../../../test/support/acknowledging-node.ts';
import { undisputedNetworks } from '../../../test/support/enforcement-scene.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { openingsOwner } from '../../dataplane/compile/compile-openings.ts';
import type { PolicyMode } from '../../dataplane/compile/environment.ts';
import type { Wanted } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { ReplicaStore } from '../../kubernetes/client/replica/replica.ts';
import type { ClusterNetworkPolicy } from '../../kubernetes/resources/cluster-network-policy.ts';
import type { Namespace } from '../../kubernetes/resources/namespace.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { Node } from '../../kubernetes/resources/node.ts';
import type { PolicyPod } from '../../kubernetes/resources/policy-pod.ts';
import { PolicyFlows } from '../flows/policy-flows.ts';
import type { LocalPodFacts, LocalSubject } from './local-subjects.ts';
import type { WhenUnknown } from './pod-policy-state.ts';
import { type BridgeBefore, PolicyController } from './policy-controller.ts';

const owner = ownerOf('subject', 'a');
const a: LocalSubject = {
  owner,
  ofPort: 32_790,
  addresses: [parseIp('10.0.0.2')],
  pod: { namespace: 'shop', name: 'a', uid: 'u' },
};
const denyAll: NetworkPolicy = { namespace: 'shop', name: 'deny', uid: 'p', generation: 1, podSelector: [], ingress: [], egress: [] };
const labelled: LocalPodFacts = { labels: {}, ports: {} };

interface Known {
  readonly rules?: boolean;
  readonly pod?: boolean;
  readonly whenUnknown?: WhenUnknown;
  readonly mode?: PolicyMode;
  readonly bridgeBefore?: BridgeBefore;
  /** Pods whose policies are suspended. */
  readonly suspended?: readonly string[];
  readonly endedAway?: boolean;
  readonly clusterPolicies?: readonly ClusterNetworkPolicy[];
}

const subject = { namespaces: [], pods: [] };
const denyTenants: ClusterNetworkPolicy = {
  name: 'tenants',
  ...{ uid: 'c', generation: 1, createdAt: '', tier: 'admin', priority: 1, subject, egress: [] },
  ingress: [{ action: 'deny', peers: [{ networks: ['10.9.0.0/16'] }], protocols: 'any' }],
};

const suspension = { what: 'pod', name: 'shop/a', reason: 'a test', sinceMs: 0, untilMs: 60_000, bootEndMs: 0, bootId: '' } as const;

/** Node whose OVS acknowledges everything at once; `shop` has a policy that denies all traffic. */
function scene(known: Known) {
  const now = { rules: true, pod: true, mode: 'enforce' as PolicyMode, ...known };
  const policies = new ReplicaStore<NetworkPolicy>();
  policies.put('shop/deny', '1', denyAll);
  const namespaces = new ReplicaStore<Namespace>();
  namespaces.put('shop', '1', { name: 'shop', labels: {} });
  const clusterPolicies = new ReplicaStore<ClusterNetworkPolicy>();
  for (const each of known.clusterPolicies ?? []) clusterPolicies.put(each.name, '1', each);
  const wanted = new Map<Owner, Wanted>();
  const enforcement = new PolicyController({
    nodeName: 'n1',
    sources: {
      namespaces,
      policies,
      clusterPolicies,
      nodes: new ReplicaStore<Node>(),
      pods: new ReplicaStore<PolicyPod>(),
    },
    nodeNetworks: undisputedNetworks,
    rulesKnown: () => now.rules,
    areAddressesKnown: () => false,
    factsOf: () => (now.pod ? labelled : undefined),
    flows: new PolicyFlows({ families: ['ipv4'] }),
    nodeState: acknowledgingNode((of, flows) => (flows ? wanted.set(of, flows) : wanted.delete(of))),
    suspensions: {
      of: (pod) => (now.suspended?.includes(pod) ? suspension : undefined),
      endedAway: () => known.endedAway === true,
    },
    whenUnknown: known.whenUnknown ?? 'closed',
    serviceOpenings: 2_000,
    mode: () => now.mode,
    bridgeBefore: known.bridgeBefore ?? 'empty',
    turns: new LoopTurns(5),
    log: silentLog,
    signal: new AbortController().signal,
  });
  enforcement.follow();
  const standing = () => enforcement.standings().get(owner)?.is;
  const attach = async () => {
    await enforcement.settled();
    await enforcement.attach(a, AbortSignal.timeout(5_000));
    return standing();
  };
  return {
    now,
    enforcement,
    standing,
    attach,
    entries: () => wanted.get(owner)?.flows.length,
    meters: () => wanted.get(openingsOwner(owner))?.meters,
  };
}

describe('a pod that begins', () => {
  it.each<[Known, string]>([
    [{}, 'policed'],
    [{ rules: false }, 'closed'],
    [{ pod: false }, 'closed'],
    [{ rules: false, whenUnknown: 'open' }, 'free'],
    [{ pod: false, whenUnknown: 'open' }, 'free'],
    [{ whenUnknown: 'open' }, 'policed'],
    [{ whenUnknown: 'refuse' }, 'policed'],
    [{ mode: 'audit' }, 'policed'],
    [{ pod: false, mode: 'audit', whenUnknown: 'refuse' }, 'closed'],
    [{ mode: 'off' }, 'free'],
    [{ rules: false, mode: 'off', whenUnknown: 'refuse' }, 'free'],
  ])('with %j is %s', async (known, is) => {
    expect(await scene(known).attach()).toBe(is);
  });

  it.each<[Known, string]>([
    [{ rules: false }, 'policies are not known yet'],
    [{ pod: false }, 'the labels of the pod are not known yet'],
  ])('with %j is rejected if configured', async (known, why) => {
    await expect(scene({ ...known, whenUnknown: 'refuse' }).attach()).rejects.toThrow(why);
  });
});

describe('connections of a pod to Services', () => {
  const meter = [{ id: 7, unit: 'packets', rate: 2_000, burst: 2_000 }];

  it.each<[Known, unknown]>([
    [{}, meter],
    [{ pod: false }, meter],
    [{ mode: 'audit' }, undefined],
    [{ mode: 'off' }, undefined],
  ])('with %j passes %j', async (known, meters) => {
    const s = scene(known);
    await s.attach();
    expect(s.meters()).toEqual(meters);
  });

  it('pass a meter as long as policies are enforced', async () => {
    const s = scene({});
    await s.attach();
    s.now.mode = 'audit';
    s.enforcement.modeChanged();
    await s.enforcement.settled();
    expect(s.meters()).toBeUndefined();
    s.now.mode = 'enforce';
    s.enforcement.modeChanged();
    await s.enforcement.settled();
    expect(s.meters()).toEqual(meter);
    s.enforcement.detach(owner);
    expect(s.meters()).toBeUndefined();
  });
});

describe('a pod of an earlier agent with unknown policies', () => {
  it.each<[Known, string | undefined]>([
    [{}, 'closed'],
    [{ whenUnknown: 'open' }, 'free'],
    [{ bridgeBefore: 'with policy' }, undefined],
    [{ bridgeBefore: 'with policy', whenUnknown: 'open' }, undefined],
    [{ bridgeBefore: 'with policy', mode: 'off' }, 'free'],
    [{ bridgeBefore: 'without policy' }, 'free'],
  ])('with %j is %s, and has policies once they are known', async (known, is) => {
    const s = scene({ ...known, pod: false });
    s.enforcement.adopt(a);
    await s.enforcement.settled();
    expect(s.standing()).toBe(is);
    s.now.pod = true;
    s.now.mode = 'enforce';
    s.enforcement.modeChanged();
    s.enforcement.podsChanged(['shop/a']);
    await s.enforcement.settled();
    expect(s.standing()).toBe('policed');
  });
});

describe('a change of the mode', () => {
  it('frees a pod immediately, and enforces its policies again', async () => {
    const s = scene({});
    expect(await s.attach()).toBe('policed');
    s.now.mode = 'off';
    s.enforcement.modeChanged();
    expect([s.standing(), s.entries()]).toEqual(['free', 2]);
    await s.enforcement.settled();
    expect(s.standing()).toBe('free');
    s.now.mode = 'audit';
    s.enforcement.modeChanged();
    await s.enforcement.settled();
    expect([s.standing(), s.entries()]).toEqual(['policed', 5]);
  });

  it('frees a pod with unknown policies', async () => {
    const s = scene({ rules: false });
    expect(await s.attach()).toBe('closed');
    s.now.mode = 'off';
    s.enforcement.modeChanged();
    expect(s.standing()).toBe('free');
  });
});

describe('a suspension', () => {
  it.each<[Known]>([[{}], [{ rules: false }], [{ pod: false, whenUnknown: 'refuse' }], [{ mode: 'audit' }]])(
    'frees a new pod with %j',
    async (known) => {
      const s = scene({ ...known, suspended: ['shop/a'] });
      expect(await s.attach()).toBe('suspended');
      expect(s.entries()).toBe(2);
    },
  );

  it('frees a pod immediately, gives the reason, and enforces its policies again', async () => {
    const s = scene({});
    expect(await s.attach()).toBe('policed');
    s.now.suspended = ['shop/a'];
    s.enforcement.suspensionsChanged();
    expect([s.standing(), s.entries()]).toEqual(['suspended', 2]);
    await s.enforcement.settled();
    expect(s.enforcement.pods().get('shop/a')).toEqual({
      is: 'suspended',
      why: 'until 1970-01-01T00:01:00.000Z: a test',
      ingress: ['shop/deny'],
      egress: ['shop/deny'],
    });
    s.now.suspended = [];
    s.enforcement.suspensionsChanged();
    await s.enforcement.settled();
    expect([s.standing(), s.entries()]).toEqual(['policed', 5]);
  });

  it('ends all tiers for the pod, names their policies, and enforces them again', async () => {
    const s = scene({ clusterPolicies: [denyTenants] });
    expect(await s.attach()).toBe('policed');
    const policed = s.entries() ?? 0;
    s.now.suspended = ['shop/a'];
    s.enforcement.suspensionsChanged();
    await s.enforcement.settled();
    expect([s.standing(), s.entries(), s.enforcement.pods().get('shop/a')?.ingress]).toEqual(['suspended', 2, ['tenants', 'shop/deny']]);
    s.now.suspended = [];
    s.enforcement.suspensionsChanged();
    await s.enforcement.settled();
    expect([s.standing(), s.entries(), policed]).toEqual(['policed', policed, 7]);
  });

  it('blocks a pod with unknown policies at its end', async () => {
    const s = scene({ rules: false, suspended: ['shop/a'] });
    expect(await s.attach()).toBe('suspended');
    s.now.suspended = [];
    s.enforcement.suspensionsChanged();
    expect(s.standing()).toBe('closed');
  });

  it.each<[Known, string | undefined, string]>([
    [{ suspended: ['shop/a'] }, 'suspended', 'suspended'],
    [{ suspended: ['shop/a'], rules: false }, 'suspended', 'suspended'],
    [{ endedAway: true, rules: false }, 'closed', 'closed'],
    [{ endedAway: true, pod: false }, undefined, 'closed'],
    [{ endedAway: true }, undefined, 'policed'],
  ])('of an earlier agent, with %j: the pod is %s, then %s', async (known, first, then) => {
    const s = scene({ ...known, bridgeBefore: 'with policy' });
    s.enforcement.adopt(a);
    expect(s.standing()).toBe(first);
    await s.enforcement.settled();
    expect(s.standing()).toBe(then);
  });
});
