import { describe, expect, it } from 'vitest';
import { formatPath } from '../../kubernetes/client/resource.ts';
import { quoted } from '../../kubernetes/resources/object-faults.ts';
import { convertPolicies } from './convert.ts';

const antrea = (kind: string, name: string, spec: object, namespace?: string) => ({
  apiVersion: 'crd.antrea.io/v1beta1',
  kind,
  metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
  spec,
});
const admin = (name: string, spec: object, kind = 'AdminNetworkPolicy') => ({
  apiVersion: 'policy.networking.k8s.io/v1alpha1',
  kind,
  metadata: { name },
  spec,
});
const convert = (...objects: readonly object[]) => convertPolicies(objects.map((object, at) => ({ place: `file ${at + 1}`, object })));
const lossesOf = (...objects: readonly object[]) =>
  convert(...objects).losses.map(({ object, field, value, reason }) => `${object} ${formatPath(field)} ${quoted(value)}: ${reason}`);
const shop = { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } };
const db = { matchLabels: { app: 'db' } };
const every = { appliedTo: [{ namespaceSelector: {} }], priority: 1 };

it('ranks the older of two policies of one priority first, as Antrea does', () => {
  const aged = (name: string, creationTimestamp: string) => {
    const policy = antrea('ClusterNetworkPolicy', name, { ...every, ingress: [{ action: 'Drop' }] });
    return { ...policy, metadata: { ...policy.metadata, creationTimestamp } };
  };
  const { policies } = convert(aged('a', '2026-11-02T00:00:00Z'), aged('b', '2026-11-01T00:00:00Z'));
  const byRank = policies.toSorted((a, b) => a.spec.priority - b.spec.priority);
  expect(byRank.map(({ metadata }) => metadata.name)).toEqual([expect.stringContaining('b'), expect.stringContaining('a')]);
});

it('converts an AdminNetworkPolicy field by field', () => {
  const spec = {
    priority: 7,
    subject: { pods: { namespaceSelector: shop, podSelector: db } },
    ingress: [
      {
        name: 'sql',
        action: 'Allow',
        from: [{ namespaces: {} }],
        ports: [{ portNumber: { protocol: 'TCP', port: 5432 } }, { portRange: { start: 1, end: 9 } }, { namedPort: 'sql' }],
      },
    ],
    egress: [
      { action: 'Deny', to: [{ networks: ['10.1.2.3/8', '2001:DB8::/32'] }, { nodes: {} }] },
      { action: 'Pass', to: [{ pods: { namespaceSelector: {}, podSelector: db } }] },
    ],
  };
  const { policies, losses } = convert(admin('a', spec));
  expect(losses).toEqual([]);
  expect(policies).toEqual([
    {
      apiVersion: 'policy.networking.k8s.io/v1beta1',
      kind: 'ClusterNetworkPolicy',
      metadata: { name: 'a' },
      spec: {
        tier: 'Admin',
        priority: 7,
        subject: { pods: { namespaceSelector: shop, podSelector: db } },
        ingress: [
          {
            name: 'sql',
            action: 'Accept',
            from: [{ namespaces: {} }],
            protocols: [
              { tcp: { destinationPort: { number: 5432 } } },
              { tcp: { destinationPort: { range: { start: 1, end: 9 } } } },
              { destinationNamedPort: 'sql' },
            ],
          },
        ],
        egress: [
          { action: 'Deny', to: [{ networks: ['10.0.0.0/8', '2001:db8::/32'] }, { nodes: {} }] },
          { action: 'Pass', to: [{ pods: { namespaceSelector: {}, podSelector: db } }] },
        ],
      },
    },
  ]);
});

it('keeps priorities of AdminNetworkPolicies, and gives a BaselineAdminNetworkPolicy priority 0 and a name of its own', () => {
  const spec = { subject: { namespaces: {} }, ingress: [{ action: 'Deny', from: [{ namespaces: {} }] }] };
  const { policies } = convert(
    admin('default', spec, 'BaselineAdminNetworkPolicy'),
    admin('late', { ...spec, priority: 900 }),
    admin('default', { ...spec, priority: 3 }),
  );
  expect(policies.map(({ metadata, spec: { tier, priority } }) => [metadata.name, tier, priority])).toEqual([
    ['default', 'Admin', 3],
    ['late', 'Admin', 900],
    ['default-2', 'Baseline', 0],
  ]);
});

it('splits lists that are longer than the API admits, and keeps the order', () => {
  const rules = Array.from({ length: 60 }, (_, at) => ({ name: `r${at}`, action: 'Allow', from: [{ namespaces: {} }] }));
  const peers = Array.from({ length: 30 }, (_, at) => ({ networks: [`10.0.${at}.0/24`] }));
  const { policies } = convert(
    admin('second', { priority: 6, subject: { namespaces: {} }, ingress: [{ action: 'Deny', from: [{ namespaces: {} }] }] }),
    admin('first', { priority: 5, subject: { namespaces: {} }, ingress: rules, egress: [{ action: 'Deny', to: peers }] }),
  );
  expect(policies.map(({ metadata, spec: { priority } }) => [metadata.name, priority])).toEqual([
    ['first-1', 0],
    ['first-2', 10],
    ['first-3', 20],
    ['second', 30],
  ]);
  expect(policies.flatMap(({ spec }) => (spec.ingress ?? []).flatMap(({ name }) => name ?? []))).toEqual(rules.map(({ name }) => name));
  expect(policies[0]?.spec.egress?.map(({ to }) => to?.length)).toEqual([25, 5]);
});

describe('policies of Antrea', () => {
  it('are in the order of tiers and priorities', () => {
    const spec = (tier: string | undefined, priority: number) => ({
      ...every,
      priority,
      ...(tier === undefined ? {} : { tier }),
      ingress: [{ action: 'Drop', from: [{ namespaceSelector: {} }] }],
    });
    const { policies } = convert(
      antrea('ClusterNetworkPolicy', 'base', spec('baseline', 1)),
      antrea('ClusterNetworkPolicy', 'usual', spec(undefined, 1)),
      antrea('ClusterNetworkPolicy', 'own', spec('own', 1)),
      antrea('Tier', 'own', { priority: 60 }),
      antrea('ClusterNetworkPolicy', 'ops', spec('SecurityOps', 1.5)),
      antrea('ClusterNetworkPolicy', 'first', spec('emergency', 10_000)),
      antrea('ClusterNetworkPolicy', 'ops-before', spec('securityops', 1.25)),
      admin('upstream', { priority: 0, subject: { namespaces: {} }, ingress: [{ action: 'Deny', from: [{ namespaces: {} }] }] }),
    );
    expect(policies.map(({ metadata, spec: { tier, priority } }) => `${metadata.name} ${tier} ${priority}`)).toEqual([
      'first Admin 0',
      'own Admin 10',
      'ops-before Admin 20',
      'ops Admin 30',
      'usual Admin 40',
      'upstream Admin 50',
      'base Baseline 0',
    ]);
  });

  it('select pods of their own namespace, or of all namespaces', () => {
    const spec = { priority: 1, appliedTo: [{ podSelector: db }], ingress: [{ action: 'Allow', from: [{ podSelector: db }] }] };
    const { policies } = convert(antrea('NetworkPolicy', 'own', spec, 'shop'), antrea('ClusterNetworkPolicy', 'all', spec));
    const [all, own] = [
      { namespaceSelector: {}, podSelector: db },
      { namespaceSelector: shop, podSelector: db },
    ].map((pods) => ({ pods }));
    expect(policies.map(({ metadata, spec: { subject, ingress } }) => [metadata.name, subject, ingress?.[0]?.from])).toEqual([
      ['all', all, [all]],
      ['shop.own', own, [own]],
    ]);
  });

  it('become a policy for each subject, and for each list of rules with the same subjects', () => {
    const [a, b] = [{ podSelector: { matchLabels: { app: 'a' } } }, { podSelector: { matchLabels: { app: 'b' } } }];
    const rule = (appliedTo: readonly object[]) => ({ action: 'Allow', from: [{ namespaceSelector: {} }], appliedTo });
    const { policies } = convert(
      antrea('ClusterNetworkPolicy', 'p', { priority: 1, ingress: [rule([a]), rule([a]), rule([a, b])], egress: [] }),
    );
    expect(
      policies.map(({ metadata, spec: { priority, subject, ingress } }) => [
        metadata.name,
        priority,
        subject.pods?.podSelector.matchLabels?.['app'],
        ingress?.length,
      ]),
    ).toEqual([
      ['p-1', 0, 'a', 2],
      ['p-2', 10, 'a', 1],
      ['p-3', 10, 'b', 1],
    ]);
  });

  it('answer denied connections only in the policies that rejected them', () => {
    const rule = (action: string) => ({ action, from: [{ namespaceSelector: {} }] });
    const { policies } = convert(
      antrea('ClusterNetworkPolicy', 'p', { ...every, ingress: [rule('Drop'), rule('Allow'), rule('Reject'), rule('Pass')] }),
    );
    expect(policies.map(({ metadata, spec }) => [metadata.annotations, spec.ingress?.map(({ action }) => action)])).toEqual([
      [undefined, ['Deny', 'Accept']],
      [{ 'seine.dev/denied': 'reject' }, ['Deny', 'Pass']],
    ]);
  });

  it('name every address where a rule has no destination, and every pod for named ports', () => {
    const { policies } = convert(
      antrea('ClusterNetworkPolicy', 'p', {
        ...every,
        egress: [{ action: 'Drop', ports: [{ port: 'sql' }, { port: 25 }] }, { action: 'Drop' }],
      }),
    );
    const networks = { networks: ['0.0.0.0/0', '::/0'] };
    const smtp = { tcp: { destinationPort: { number: 25 } } };
    expect(policies[0]?.spec.egress).toEqual([
      { action: 'Deny', to: [{ namespaces: {} }], protocols: [{ destinationNamedPort: 'sql' }, smtp] },
      { action: 'Deny', to: [networks], protocols: [smtp] },
      { action: 'Deny', to: [networks] },
    ]);
  });

  it('have the members of groups', () => {
    const { policies, losses } = convert(
      antrea('ClusterGroup', 'both', { childGroups: ['pods', 'blocks'] }),
      antrea('ClusterGroup', 'pods', { podSelector: db, namespaceSelector: shop }),
      antrea('ClusterGroup', 'blocks', { ipBlocks: [{ cidr: '10.0.0.0/30', except: ['10.0.0.1/32'] }] }),
      antrea('ClusterNetworkPolicy', 'p', {
        priority: 1,
        appliedTo: [{ group: 'pods' }],
        egress: [{ action: 'Drop', to: [{ group: 'both' }] }],
      }),
    );
    const pods = { pods: { namespaceSelector: shop, podSelector: db } };
    expect(losses).toEqual([]);
    expect(policies[0]?.spec).toMatchObject({
      subject: pods,
      egress: [{ to: [pods, { networks: ['10.0.0.0/32', '10.0.0.2/31'] }] }],
    });
  });

  it('have a rule of their own for names', () => {
    const to = [{ fqdn: '*.example.com' }, { ipBlock: { cidr: '10.0.0.0/8' } }];
    const { policies } = convert(antrea('ClusterNetworkPolicy', 'p', { ...every, egress: [{ action: 'Allow', to }] }));
    expect(policies[0]?.spec.egress?.map((rule) => rule.to)).toEqual([
      [{ networks: ['10.0.0.0/8'] }],
      [{ domainNames: ['*.example.com'] }],
    ]);
  });
});

describe('a part that has no counterpart is named', () => {
  const ingress = (rule: object) => antrea('ClusterNetworkPolicy', 'p', { ...every, ingress: [{ action: 'Drop', ...rule }] });
  const egress = (rule: object) => antrea('ClusterNetworkPolicy', 'p', { ...every, egress: [{ action: 'Drop', ...rule }] });
  const subject = (appliedTo: object) => antrea('ClusterNetworkPolicy', 'p', { priority: 1, appliedTo: [appliedTo], ingress: [] });
  const pods = { namespaceSelector: {} };
  it.each<[string, object, string]>([
    ['networks in ingress', ingress({ from: [{ ipBlock: { cidr: '10.0.0.0/8' } }, pods] }), 'spec.ingress[0].from[0] {"ipBlock"'],
    ['nodes in ingress', ingress({ from: [{ nodeSelector: {} }, pods] }), 'spec.ingress[0].from[0] {"nodeSelector"'],
    ['sources other than pods', ingress({}), 'spec.ingress[0].from absent: sources other than pods'],
    [
      'names in Drop',
      egress({ to: [{ fqdn: 'a.example.com' }] }),
      'spec.egress[0].to[0] {"fqdn":"a.example.com"}: names are for rules that allow',
    ],
    ['names with patterns', egress({ action: 'Allow', to: [{ fqdn: '*ample.com' }] }), '{"fqdn":"*ample.com"}: neither a name nor'],
    ['ICMP', egress({ protocols: [{ icmp: { icmpType: 8 } }] }), 'spec.egress[0].protocols[0] {"icmp":{"icmpType":8}}: ICMP and IGMP'],
    ['IGMP', egress({ protocols: [{ igmp: { igmpType: 17 } }] }), 'spec.egress[0].protocols[0] {"igmp"'],
    ['source ports', egress({ ports: [{ port: 80, sourcePort: 9 }] }), 'spec.egress[0].ports[0].sourcePort 9: source ports'],
    ['layer 7', egress({ action: 'Allow', l7Protocols: [{ http: {} }] }), 'spec.egress[0].l7Protocols [{"http":{}}]'],
    ['Services as peers', egress({ toServices: [{ name: 'db', namespace: 'shop' }] }), 'spec.egress[0].toServices [{"name":"db"'],
    ['service accounts', egress({ to: [{ serviceAccount: { name: 'a', namespace: 'b' } }] }), 'serviceAccount: service accounts'],
    ['sameLabels', ingress({ from: [{ namespaces: { sameLabels: ['tenant'] } }] }), 'namespaces: a peer cannot depend on the namespace'],
    ['other clusters', ingress({ from: [{ podSelector: {}, scope: 'ClusterSet' }] }), 'scope: other clusters'],
    ['external entities', ingress({ from: [{ externalEntitySelector: {} }] }), 'externalEntitySelector: external entities'],
    [
      'a protocol of a named port',
      egress({ ports: [{ protocol: 'UDP', port: 'dns' }] }),
      'spec.egress[0].ports[0].protocol "UDP": a named port has',
    ],
    ['logging', egress({ enableLogging: true, logLabel: 'x' }), 'spec.egress[0].enableLogging true: logging'],
    ['an unknown group', egress({ to: [{ group: 'g' }] }), 'spec.egress[0].to[0] {"group":"g"}: group "g" is not among the objects'],
    ['a field of a later version in a rule', egress({ later: 1 }), 'spec.egress[0] {"action":"Drop","later":1}'],
    ['a field of a later version', antrea('ClusterNetworkPolicy', 'p', { ...every, later: 1 }), 'spec.later 1: a field unknown'],
    ['nodes as subjects', subject({ nodeSelector: {} }), 'spec.appliedTo[0] {"nodeSelector":{}}: nodeSelector: nodes are not subjects'],
    ['Services as subjects', subject({ service: { name: 'a', namespace: 'b' } }), 'service: a Service is not a subject'],
    [
      'a tier that is not known',
      antrea('ClusterNetworkPolicy', 'p', { ...every, tier: 'none' }),
      'spec.tier "none": the tier is not among',
    ],
    ['other namespaces as subjects', antrea('NetworkPolicy', 'p', { ...every }, 'shop'), 'a policy of a namespace applies to its own pods'],
    ['an earlier version', { ...egress({}), apiVersion: 'crd.antrea.io/v1alpha1' }, 'apiVersion "crd.antrea.io/v1alpha1"'],
    [
      'tenants of an earlier AdminNetworkPolicy',
      admin('p', {
        priority: 1,
        subject: { namespaces: {} },
        ingress: [{ action: 'Deny', from: [{ namespaces: { sameLabels: ['a'] } }] }],
      }),
      'AdminNetworkPolicy p spec.ingress[0].from[0] {"namespaces":{"sameLabels":["a"]}}',
    ],
    [
      'an unknown action',
      admin('p', { priority: 1, subject: { namespaces: {} }, ingress: [{ action: 'Log', from: [] }] }),
      'spec.ingress[0] {"action":"Log"',
    ],
    [
      'no peers',
      admin('p', { priority: 1, subject: { namespaces: {} }, egress: [{ action: 'Deny', to: [] }] }),
      'spec.egress[0].to []: one or more',
    ],
    ['no subject', admin('p', { priority: 1, subject: {} }), 'spec.subject {}: one known field is required'],
  ])('%s', (_, object, text) => {
    expect(lossesOf(object).filter((loss) => loss.includes(text))).toHaveLength(1);
  });

  it('1,001 ranks in a tier', () => {
    const rule = { action: 'Drop', from: [pods] };
    const many = Array.from({ length: 1_003 }, (_, at) =>
      antrea('ClusterNetworkPolicy', `p${at}`, { ...every, priority: at, ingress: [rule] }),
    );
    const { policies, losses } = convert(...many);
    expect([policies.length, policies.at(-1)?.spec.priority]).toEqual([1_001, 1_000]);
    expect(losses.map(({ object }) => object)).toEqual([
      'crd.antrea.io ClusterNetworkPolicy p1001',
      'crd.antrea.io ClusterNetworkPolicy p1002',
    ]);
  });
});

describe('hostile input', () => {
  it('is refused where it is no policy, with place, kind and field', () => {
    expect(() => convert(admin('p', { priority: 'high', subject: {} }))).toThrow(
      'file 1: AdminNetworkPolicy p: spec.priority: Invalid input',
    );
    expect(() => convert(antrea('NetworkPolicy', 'p', { priority: Number.NaN }))).toThrow('file 1: NetworkPolicy p: spec.priority');
    expect(() => convert({ kind: 'ClusterNetworkPolicy' })).toThrow('file 1: apiVersion');
    expect(() => convert(admin('p', { priority: 1 }), admin('p', { priority: 1 }))).toThrow(
      'file 2: AdminNetworkPolicy p: another document',
    );
  });

  it('does not grow by groups of groups, or by groups that contain themselves', () => {
    const groups = Array.from({ length: 8 }, (_, at) =>
      antrea('ClusterGroup', `g${at}`, at === 0 ? { podSelector: {} } : { childGroups: Array.from({ length: 40 }, () => `g${at - 1}`) }),
    );
    const policy = (group: string) => antrea('ClusterNetworkPolicy', 'p', { ...every, ingress: [{ action: 'Drop', from: [{ group }] }] });
    expect(lossesOf(...groups, policy('g7')).join()).toContain('all groups together have more than');
    const empty = [antrea('ClusterGroup', 'g0', {}), ...groups.slice(1)];
    expect(lossesOf(...empty, policy('g7')).join()).toContain('all groups together have more than');
    expect(lossesOf(antrea('ClusterGroup', 'own', { childGroups: ['own'] }), policy('own')).join()).toContain('nested more than 8 deep');
  });

  it('does not grow by the product of subjects and rules, or of the peers and ports of a rule', () => {
    const appliedTo = Array.from({ length: 1_000 }, (_, at) => ({ podSelector: { matchLabels: { app: `a${at}` } } }));
    const from = Array.from({ length: 1_000 }, (_, at) => ({ podSelector: { matchLabels: { app: `b${at}` } } }));
    const ports = Array.from({ length: 1_000 }, (_, at) => ({ protocol: 'TCP', port: at + 1 }));
    const one = { action: 'Drop', from, ports };
    const bySubjects = convert(antrea('ClusterNetworkPolicy', 'p', { priority: 1, appliedTo, ingress: [one] }));
    expect([bySubjects.policies, bySubjects.losses[0]?.reason]).toEqual([
      [],
      'it would become 64000 policies; a run has 50000, and a tier 1001 priorities',
    ]);
    const byRules = convert(antrea('ClusterNetworkPolicy', 'p', { ...every, ingress: Array.from({ length: 100 }, () => one) }));
    expect([byRules.policies, byRules.losses[0]?.reason]).toEqual([[], expect.stringContaining('6400 policies')]);
    const { policies, losses } = convert(antrea('ClusterNetworkPolicy', 'p', { ...every, ingress: [one] }));
    expect([policies.length, losses]).toEqual([64, []]);
  });

  it('does not grow by exceptions', () => {
    const except = Array.from({ length: 40 }, (_, at) => `2001:db8:${at}::1/128`);
    const block = { ipBlock: { cidr: '::/0', except } };
    const found = lossesOf(antrea('ClusterNetworkPolicy', 'p', { ...every, egress: [{ action: 'Drop', to: [block] }] }));
    expect(found[0]).toMatch(/ipBlock: \d+ networks, at most 625/);
  });

  it.each(['__proto__', 'constructor', 'toString'])('has no tier or group %s by accident', (name) => {
    const policy = antrea('ClusterNetworkPolicy', 'p', { ...every, tier: name, ingress: [] });
    expect(lossesOf(policy)[0]).toContain('the tier is not among the objects');
  });
});
