import { describe, expect, it } from 'vitest';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { parseIp } from '../../base/net/ip.ts';
import { parseMac } from '../../base/net/mac.ts';
import { associationCookieOf, associationShares } from '../../dataplane/pipeline/cookie.ts';
import type { NetworkPolicy } from '../../kubernetes/resources/network-policy.ts';
import type { FlowStats } from '../../openflow/flows/flow-stats.ts';
import { encodeMatch } from '../../openflow/match/match.ts';
import type { Lease } from '../../pods/ipam/lease.ts';
import { PolicyEngine } from '../../policy/engine/policy-engine.ts';
import { onePolicy, type PolicyPort, podPolicy, policyExplanation } from './policy-routes.ts';

/** @param flows of the table `associations` on the bridge */
function setUp(flows: readonly Pick<FlowStats, 'cookie' | 'match'>[] = [], policies: readonly NetworkPolicy[] = []) {
  const engine = new PolicyEngine('node-1');
  for (const each of policies) engine.putPolicy(each);
  engine.putPod({ namespace: 'shop', name: 'db', nodeName: 'node-1', podIps: ['10.10.0.5'], labels: {}, ports: {} });
  engine.update();
  const lease: Lease = {
    serial: 1,
    state: 'allocated',
    network: 'seine',
    containerId: 'c',
    ifName: 'eth0',
    netns: '/run/netns/c',
    mac: parseMac('02:00:00:00:00:05'),
    pod: { namespace: 'shop', name: 'db', uid: 'u' },
    addresses: [{ ip: parseIp('10.10.0.5'), gateway: parseIp('10.10.0.1'), prefixLength: 24 }],
  };
  const far = { namespace: 'shop', name: 'far', nodeName: 'node-2', podIps: ['10.10.1.7'], labels: {}, ports: {} };
  const policy = { namespace: 'shop', name: 'db', uid: 'u', generation: 1, podSelector: [], ingress: [] };
  const subject = { namespaces: [], pods: [] };
  const tenants = {
    name: 'tenants',
    uid: 'u',
    generation: 2,
    createdAt: '',
    tier: 'admin',
    priority: 7,
    subject,
    ingress: [],
    egress: [],
  } as const;
  const port: PolicyPort = {
    turns: new LoopTurns(4),
    openflow: {
      dumpFlows: async (_, visit) => {
        for (const flow of flows) visit(flow as FlowStats);
      },
    },
    sources: {
      networkPolicies: { replica: { entries: () => [], get: (key) => (key === 'shop/db' ? policy : undefined) } },
      clusterNetworkPolicies: { replica: { entries: () => [], get: (key) => (key === 'tenants' ? tenants : undefined) } },
      policyPods: { replica: { get: (key) => (key === 'shop/far' ? far : undefined) } },
    },
    running: () => ({
      environment: {},
      ipam: { leases: () => [lease] },
      policy: {
        matrix: engine.matrix,
        rulesOf: (...of) => engine.rulesOf(...of),
        podsOf: (...of) => engine.podsOf(...of),
        leftOutAt: (...of) => engine.leftOutAt(...of),
        pods: () => new Map([['shop/db', { is: policies.length > 0 ? 'policed' : 'free', ingress: [], egress: [] }]]),
      },
    }),
  };
  const bodyOf = ({ body }: { readonly body: unknown }): unknown => JSON.parse(String(body));
  return {
    pod: (name: string) => bodyOf(podPolicy(port, new URLSearchParams({ name }))),
    policy: async (name: string) => bodyOf(await onePolicy(port, new URLSearchParams({ name }))),
    explain: async (query: Readonly<Record<string, string>>) =>
      bodyOf(await policyExplanation(port, new URLSearchParams(query), AbortSignal.timeout(5_000))),
  };
}

describe('queries about policies', () => {
  it('finds a pod of this node, and no other', () => {
    const { pod } = setUp();
    expect(pod('shop/db')).toMatchObject({ addresses: ['10.10.0.5'], ingress: { state: 'free' }, egress: { state: 'free' } });
    expect(() => pod('shop/far')).toThrow('this node has no pod "shop/far"');
  });
  it('finds a policy by its name, and no other', async () => {
    const { policy } = setUp();
    expect(await policy('shop/db')).toMatchObject({ name: 'shop/db', pods: [], ingress: { rules: [] } });
    await expect(policy('shop/web')).rejects.toThrow('no policy is known by the name "shop/web"');
  });
  it('notes that a pod has used up its share of SCTP associations', async () => {
    const match = encodeMatch({ eth_type: 0x0800, ip_proto: 132, ip_src: 0x0a0a0107, ip_dst: 0x0a0a0005, sctp_src: 1, sctp_dst: 2 });
    const share = associationShares.pods + 7;
    const learned = (count: number) => Array.from({ length: count }, () => ({ cookie: associationCookieOf(share), match }));
    const query = { from: 'shop/far', to: 'shop/db', port: '80/SCTP' };
    const remark = 'shop/far has used up its share of 250 SCTP associations';
    expect(JSON.stringify(await setUp(learned(500)).explain(query))).toContain(remark);
    expect(JSON.stringify(await setUp(learned(400)).explain(query))).not.toContain(remark);
    expect(JSON.stringify(await setUp(learned(500)).explain({ ...query, port: '80/TCP' }))).not.toContain(remark);
  });
  it('does not call an association allowed whose answers are denied because a pod has used up its share', async () => {
    const match = encodeMatch({ eth_type: 0x0800, ip_proto: 132, ip_src: 0x0a0a0107, ip_dst: 0x0a0a0005, sctp_src: 1, sctp_dst: 2 });
    const cookie = associationCookieOf(associationShares.pods + 7);
    const learned = Array.from({ length: 500 }, () => ({ cookie, match }));
    const policy = { namespace: 'shop', name: 'silent', uid: 's', generation: 1, podSelector: [], egress: [] };
    const query = { from: 'shop/far', to: 'shop/db', port: '80/SCTP' };
    expect(await setUp(learned, [policy]).explain(query)).toMatchObject({ verdict: 'mixed' });
    expect(await setUp([], [policy]).explain(query)).toMatchObject({ verdict: 'allow' });
    expect(await setUp(learned).explain(query)).toMatchObject({ verdict: 'allow' });
  });
  it('finds the owner of an address or a name', async () => {
    const { explain } = setUp();
    expect(await explain({ from: 'shop/far', to: '10.10.0.5' })).toMatchObject({
      verdict: 'allow',
      ends: [{ pod: 'shop/db', from: '10.10.1.7' }],
    });
    expect(await explain({ from: '::ffff:192.0.2.7', to: 'shop/db' })).toMatchObject({ ends: [] });
  });
  it.each([
    [{ from: 'shop/far', to: '192.0.2.7' }, 'neither is a pod of this node'],
    [{ from: 'shop/missing', to: 'shop/db' }, 'no pod with an address'],
    [{ from: 'shop/far', to: 'shop/db', port: '80' }, 'is not of the form 80/TCP'],
    [{ from: 'shop/far', to: 'shop/db', port: '70000/TCP' }, 'is not of the form 80/TCP'],
  ])('refuses %j', async (query, why) => {
    await expect(setUp().explain(query as Record<string, string>)).rejects.toThrow(why);
  });
});
