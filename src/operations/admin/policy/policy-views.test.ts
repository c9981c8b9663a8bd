import { describe, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { type ClusterNetworkPolicy, clusterNetworkPoliciesOf } from '../../../kubernetes/resources/cluster-network-policy.ts';
import { type NetworkPolicy, networkPolicies } from '../../../kubernetes/resources/network-policy.ts';
import { PolicyEngine } from '../../../policy/engine/policy-engine.ts';
import { type ConnectionParty, explainConnection } from './explain-connection.ts';
import { oneClusterPolicyView, onePolicyView } from './one-policy.ts';
import { nodePolicyViews, type PolicyStanding, podPolicyView } from './policed-pods.ts';

function policyOf(name: string, spec: unknown): NetworkPolicy {
  const policy = networkPolicies.project({ metadata: { namespace: 'shop', name, uid: name }, spec });
  if (!policy) throw new Error('no policy');
  return policy;
}

const guarded = policyOf('db', {
  podSelector: { matchLabels: { app: 'db' } },
  ingress: [
    {
      from: [{ podSelector: { matchLabels: { app: 'api' } } }, { ipBlock: { cidr: '192.0.2.0/24' } }],
      ports: [{ port: 5432 }, { port: 9000, endPort: 9009 }],
    },
  ],
});
const nothingOut = policyOf('nothing-out', { podSelector: { matchLabels: { app: 'db' } }, policyTypes: ['Egress'] });
const named = policyOf('named', {
  podSelector: { matchLabels: { app: 'api' } },
  policyTypes: ['Egress'],
  egress: [{ to: [{ podSelector: {} }], ports: [{ port: 'sql' }] }],
});

function setUp(...policies: readonly NetworkPolicy[]) {
  return setUpWith(undefined, ...policies);
}

/** @param setsMost number of sets of networks for which the node has numbers */
function setUpWith(setsMost: number | undefined, ...policies: readonly NetworkPolicy[]) {
  const engine = new PolicyEngine('node-1', setsMost);
  engine.putNamespace('shop', {});
  engine.putNode({ name: 'node-1', podCidrs: ['10.10.0.0/24'], addresses: ['192.168.77.1'] });
  const pod = (name: string, nodeName: string, address: string, ports = {}): void =>
    engine.putPod({ namespace: 'shop', name, nodeName, podIps: [address], labels: { app: name }, ports });
  pod('db', 'node-1', '10.10.0.5', { 'sql/TCP': 5432 });
  pod('api', 'node-1', '10.10.0.6');
  pod('far', 'node-2', '10.10.1.7');
  for (const policy of policies) engine.putPolicy(policy);
  engine.update();
  const rulesOf = (...of: Parameters<PolicyEngine['rulesOf']>) => engine.rulesOf(...of);
  const podsOf = (...of: Parameters<PolicyEngine['podsOf']>) => engine.podsOf(...of);
  const inForce = {
    get matrix() {
      return engine.matrix;
    },
    rulesOf,
    podsOf,
  };
  return {
    inForce,
    engine,
    node: { matrix: engine.matrix, leftOutAt: (...of: Parameters<PolicyEngine['leftOutAt']>) => engine.leftOutAt(...of) },
  };
}

const policed = { is: 'policed' } as const;
const closed = { is: 'closed', why: 'policies are not known yet' } as const;

describe('a pod', () => {
  it('is isolated by direction, with rules, peers and ports', () => {
    const { inForce } = setUp(guarded, nothingOut);
    const view = podPolicyView(inForce, 'shop/db', ['10.10.0.5'], policed);
    expect(view.ingress).toEqual({
      state: 'isolated',
      isolatedBy: ['shop/db'],
      rules: [
        {
          name: 'shop/db spec.ingress[0]',
          peers: ['pods of "shop": app in api', 'block 192.0.2.0/24'],
          morePeers: 0,
          ports: ['TCP 5432', 'TCP 9000-9009'],
        },
      ],
      moreRules: 0,
    });
    expect(view.egress).toEqual({ state: 'isolated', isolatedBy: ['shop/nothing-out'], rules: [], moreRules: 0 });
  });

  it('is free of policies that select other pods', () => {
    const { inForce } = setUp(guarded);
    const { ingress, egress } = podPolicyView(inForce, 'shop/api', ['10.10.0.6'], { is: 'free' });
    expect([ingress.state, egress.state]).toEqual(['free', 'free']);
  });

  it('names the port that each peer resolves a named port to', () => {
    const { inForce } = setUp(named);
    const { egress } = podPolicyView(inForce, 'shop/api', ['10.10.0.6'], policed);
    expect(egress.rules).toEqual([
      { name: 'shop/named spec.egress[0]', peers: ['pods of "shop" with "sql/TCP"'], morePeers: 0, ports: ['sql/TCP'] },
    ]);
  });

  it('is blocked pending policy, with the reason, and unchanged until a decision', () => {
    const { inForce } = setUp(guarded);
    const closedView = podPolicyView(inForce, 'shop/db', ['10.10.0.5'], closed);
    expect(closedView.ingress).toMatchObject({ state: 'closed', why: 'policies are not known yet' });
    expect(podPolicyView(inForce, 'shop/db', ['10.10.0.5'], undefined).egress).toMatchObject({ state: 'as before' });
  });
});

describe('policies of the node', () => {
  it('have the number of pods that they isolate, and unsupported fields', () => {
    const odd = policyOf('odd', { podSelector: { matchLabels: { app: 'unused' } }, ingress: [{ from: [{ nonsense: {} }] }] });
    const idle = policyOf('idle', { podSelector: { matchLabels: { app: 'unused' } } });
    const all = [guarded, nothingOut, odd, idle];
    const { inForce } = setUp(...all);
    const views = [...nodePolicyViews(inForce, { policies: all.map((each) => [`shop/${each.name}`, each] as const), clusterPolicies: [] })];
    expect(views.slice(0, 2)).toEqual([
      { name: 'shop/db', ingress: 1, egress: 0, notUnderstood: [] },
      { name: 'shop/nothing-out', ingress: 0, egress: 1, notUnderstood: [] },
    ]);
    expect(views.slice(2)).toEqual([
      { name: 'shop/odd', ingress: 0, egress: 0, notUnderstood: [expect.stringContaining('nonsense'), expect.anything()] },
    ]);
  });
});

describe('cluster policies of the node', () => {
  const clusterPolicyOf = (name: string, spec: object): ClusterNetworkPolicy => {
    const projected = clusterNetworkPoliciesOf('v1beta1').project({
      metadata: { name, uid: name, generation: 3 },
      spec: { tier: 'Admin', priority: 10, subject: { namespaces: {} }, ...spec },
    });
    if (!projected) throw new Error('no policy');
    return projected;
  };
  const api = { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'api' } } } };
  const tenants = clusterPolicyOf('tenants', {
    subject: { pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: 'db' } } } },
    ingress: [
      { action: 'Pass', from: [api], protocols: [{ tcp: { destinationPort: { number: 80 } } }] },
      { action: 'Deny', from: [{ namespaces: {} }] },
    ],
  });
  const floor = clusterPolicyOf('floor', {
    tier: 'Baseline',
    priority: 0,
    egress: [{ action: 'Deny', to: [{ networks: ['192.0.2.0/24'] }] }],
  });
  const odd = clusterPolicyOf('odd', { subject: { serviceAccounts: {} } });
  const engineWith = (...policies: readonly ClusterNetworkPolicy[]) => {
    const { inForce, engine } = setUp(guarded);
    for (const each of policies) engine.putClusterPolicy(each);
    engine.update();
    return inForce;
  };
  const known = { policies: [], clusterPolicies: [tenants, floor, odd].map((each) => [each.name, each] as const) };

  it('have their tier, the number of pods that they have rules for, and unsupported fields', () => {
    expect([...nodePolicyViews(engineWith(tenants, floor, odd), known)]).toEqual([
      { name: 'tenants', cluster: { tier: 'Admin', priority: 10 }, ingress: 1, egress: 0, notUnderstood: [] },
      { name: 'floor', cluster: { tier: 'Baseline', priority: 0 }, ingress: 0, egress: 2, notUnderstood: [] },
      {
        name: 'odd',
        cluster: { tier: 'Admin', priority: 10 },
        ingress: 0,
        egress: 0,
        notUnderstood: [expect.stringContaining('subject'), expect.stringContaining('subject')],
      },
    ]);
  });

  it('have their pods, and their rules in order with actions and the number of peers', async () => {
    const view = await oneClusterPolicyView(engineWith(tenants, floor), {
      policy: tenants,
      standingOf: () => policed,
      turns: new LoopTurns(4),
    });
    expect(view).toMatchObject({
      name: 'tenants',
      cluster: { tier: 'Admin', priority: 10 },
      generation: 3,
      selects: 'app in db',
      pods: [{ name: 'shop/db', state: 'policed' }],
      ingress: {
        rules: [
          { path: 'spec.ingress[0]', action: 'Pass', peers: [{ pods: 1 }], ports: ['TCP 80'] },
          { path: 'spec.ingress[1]', action: 'Deny', ports: 'any' },
        ],
      },
      notUnderstood: [],
    });
    expect(view.egress).toBeUndefined();
  });

  it('are listed with the NetworkPolicies of a pod, in the order of the tiers', () => {
    const { ingress, egress } = podPolicyView(engineWith(tenants, floor), 'shop/db', ['10.10.0.5'], policed);
    expect(ingress.isolatedBy).toEqual(['tenants', 'shop/db']);
    expect(ingress.rules.map(({ name }) => name)).toEqual([
      'tenants spec.ingress[0]',
      'tenants spec.ingress[1]',
      'shop/db spec.ingress[0]',
    ]);
    expect(egress.isolatedBy).toEqual(['floor']);
  });
});

describe('one policy', () => {
  const standingOf = (): PolicyStanding => policed;
  const viewOf = (policy: NetworkPolicy, ...others: readonly NetworkPolicy[]) =>
    onePolicyView(setUp(policy, ...others).inForce, { policy, standingOf, turns: new LoopTurns(4) });

  it('has its local pods, and its rules in their order with the number of peers in each term', async () => {
    const { pods, ...view } = await viewOf(guarded, nothingOut);
    expect(pods).toEqual([{ name: 'shop/db', state: 'policed' }]);
    expect(view).toEqual({
      name: 'shop/db',
      generation: 0,
      selects: 'app in db',
      ingress: {
        rules: [
          {
            path: 'spec.ingress[0]',
            peers: [
              { text: 'pods of "shop": app in api', pods: 1 },
              { text: 'block 192.0.2.0/24', addresses: '256' },
            ],
            morePeers: 0,
            ports: ['TCP 5432', 'TCP 9000-9009'],
          },
        ],
        moreRules: 0,
      },
      notUnderstood: [],
    });
  });

  it('counts pods of all nodes: of whole namespaces, of names of ports, of the cluster', async () => {
    const spec = { podSelector: { matchLabels: { app: 'db' } }, ingress: [{ from: [{ podSelector: {} }, { namespaceSelector: {} }] }] };
    const { ingress } = await viewOf(policyOf('all', spec));
    expect(ingress?.rules).toMatchObject([
      {
        peers: [
          { text: 'pods of "shop"', pods: 3 },
          { text: 'any pod', pods: 3 },
        ],
        ports: 'any',
      },
    ]);
    const { egress, pods } = await viewOf(named);
    expect(pods.map(({ name }) => name)).toEqual(['shop/api']);
    expect(egress?.rules).toMatchObject([{ peers: [{ text: 'pods of "shop" with "sql/TCP"', pods: 1 }], ports: ['sql/TCP'] }]);
  });

  it('subtracts exceptions from a block, and does not look for peers of pods elsewhere', async () => {
    const from = [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } }, { podSelector: {} }];
    const { pods, ingress } = await viewOf(policyOf('far', { podSelector: { matchLabels: { app: 'far' } }, ingress: [{ from }] }));
    expect(pods).toEqual([]);
    expect(ingress?.rules[0]?.peers).toEqual([
      { text: 'block 10.0.0.0/8 -10.1.0.0/16', addresses: String(2 ** 24 - 2 ** 16) },
      { text: 'pods of "shop"' },
    ]);
  });

  it('names field and value of an unsupported part, and that the rule admits no peer', async () => {
    const { notUnderstood, ingress } = await viewOf(
      policyOf('odd', { ingress: [{ from: [{ nonsense: {} }], ports: [{ port: 80, endPort: 7 }] }] }),
    );
    expect(notUnderstood).toEqual([
      expect.stringMatching(/^spec\.ingress\[0\]\.from\[0\]: .*nonsense/),
      expect.anything(),
      expect.stringMatching(/^spec\.ingress\[0\]\.ports\[0\]: .*"endPort":7/),
    ]);
    expect(ingress?.rules).toEqual([{ path: 'spec.ingress[0]', peers: [], morePeers: 0, ports: [] }]);
  });

  it('names selected pods for which something else decides', async () => {
    const { inForce } = setUp(guarded);
    const view = await onePolicyView(inForce, { policy: guarded, standingOf: () => closed, turns: new LoopTurns(4) });
    expect(view.pods).toEqual([{ name: 'shop/db', state: 'closed' }]);
  });
});

const db: ConnectionParty = { name: 'shop/db', addresses: ['10.10.0.5'], local: { pod: 'shop/db', standing: policed } };
const api: ConnectionParty = { name: 'shop/api', addresses: ['10.10.0.6'], local: { pod: 'shop/api', standing: { is: 'free' } } };
const far: ConnectionParty = { name: 'shop/far', addresses: ['10.10.1.7'], elsewhere: { node: 'node-2' } };
const address = (text: string): ConnectionParty => ({ name: text, addresses: [text] });
const tcp = (number: number) => ({ port: { protocol: 'TCP' as const, number } });

describe('a connection', () => {
  it('is denied if the networks of its rule are left out, with rules, share and remedy', () => {
    const { node } = setUpWith(0, guarded);
    const { verdict, ends } = explainConnection(node, { from: address('192.0.2.7'), to: db, ...tcp(5432) });
    expect([verdict, ends]).toEqual([
      'deny',
      [
        expect.objectContaining({
          why: 'networks left out',
          by: ['shop/db'],
          change:
            'Fewer networks in the rules: shop/db spec.ingress[0] would allow it, but namespace shop, ingress: networks of 1 rule are denied ' +
            '(shop/db spec.ingress[0]): its rules name 1 networks, more than its share of 0 on this node; combine networks with the same ports into one rule',
        }),
      ],
    ]);
    for (const [from, number] of [
      ['192.0.3.7', 5432],
      ['192.0.2.7', 80],
    ] as const) {
      const [end] = explainConnection(node, { from: address(from), to: db, ...tcp(number) }).ends;
      expect(end).toMatchObject({ verdict: 'deny', why: 'no rule allows it' });
    }
    expect(explainConnection(node, { from: api, to: db, ...tcp(5432) }).verdict).toBe('allow');
  });

  it('is refused if the node, the namespace or the policy refuses what it denies', () => {
    const { node, engine } = setUp(guarded);
    const refusedAt = (denied?: 'reject' | 'drop') =>
      explainConnection(node, { from: address('192.0.2.7'), to: db, ...tcp(80), ...(denied && { denied }) }).ends.map(
        ({ refused }) => refused,
      );
    expect([refusedAt(), refusedAt('drop'), refusedAt('reject')]).toEqual([[undefined], [undefined], [true]]);
    engine.putNamespace('shop', {}, 'drop');
    engine.update();
    expect(refusedAt('reject')).toEqual([undefined]);
    engine.putNamespace('shop', {}, 'reject');
    engine.update();
    expect(refusedAt()).toEqual([true]);
  });

  it('is allowed by a rule at one end, and free at the other', () => {
    const { node } = setUp(guarded);
    const { verdict, ends, remarks } = explainConnection(node, { from: api, to: db, ...tcp(5432) });
    expect(verdict).toBe('allow');
    expect(ends.map(({ direction, why, by }) => [direction, why, by])).toEqual([
      ['ingress', 'a rule allows it', ['shop/db spec.ingress[0]']],
      ['egress', 'not isolated', []],
    ]);
    expect(remarks).toEqual([]);
  });

  it('is denied, with the missing rule', () => {
    const { node } = setUp(guarded);
    const { verdict, ends, remarks } = explainConnection(node, { from: far, to: db, ...tcp(80) });
    expect(verdict).toBe('deny');
    expect(ends).toEqual([
      {
        direction: 'ingress',
        pod: 'shop/db',
        from: '10.10.1.7',
        to: '10.10.0.5',
        ports: 'TCP 80',
        verdict: 'deny',
        why: 'no rule allows it',
        by: ['shop/db'],
        change:
          'a rule in spec.ingress of shop/db, or of another policy that selects shop/db, with from that matches shop/far and ports with TCP 80',
      },
    ]);
    expect(remarks).toEqual(['The egress policies of shop/far are decided on node-2: its agent has the rest']);
  });

  it('is listed port by port without a given port', () => {
    const { node } = setUp(guarded);
    const { verdict, ends } = explainConnection(node, { from: address('192.0.2.7'), to: db });
    expect(verdict).toBe('mixed');
    expect(ends.map(({ ports, verdict: each }) => [ports, each])).toEqual([
      ['TCP 5432', 'allow'],
      ['TCP 9000-9009', 'allow'],
      ['any other', 'deny'],
    ]);
  });

  it('is denied if either end denies all of it', () => {
    const { node } = setUp(guarded, nothingOut);
    expect(explainConnection(node, { from: db, to: api }).verdict).toBe('deny');
    expect(explainConnection(node, { from: db, to: db })).toMatchObject({
      verdict: 'allow',
      ends: [{ why: 'itself' }, { why: 'itself' }],
    });
  });

  it('of a pod blocked pending policy is limited to its own node', () => {
    const { node } = setUp();
    const closedDb = { ...db, local: { pod: 'shop/db', standing: closed } };
    expect(explainConnection(node, { from: address('192.168.77.1'), to: closedDb }).ends).toMatchObject([{ why: 'own node' }]);
    expect(explainConnection(node, { from: address('192.0.2.7'), to: closedDb })).toMatchObject({
      verdict: 'deny',
      ends: [{ why: 'closed', change: 'its policies have to become known (policies are not known yet)' }],
    });
  });

  it('of ends without a common family is denied', () => {
    const { node } = setUp();
    expect(explainConnection(node, { from: address('2001:db8::7'), to: db })).toMatchObject({
      verdict: 'deny',
      ends: [],
      remarks: ['They have no family of addresses in common'],
    });
  });
});
