import { describe, expect, it } from 'vitest';
import { clusterNetworkPoliciesOf } from './cluster-network-policy.ts';

const { project, path } = clusterNetworkPoliciesOf('v1beta1');
const metadata = { name: 'tenants', uid: 'u1', generation: 2, creationTimestamp: '2026-11-01T00:00:00Z' };
const everyNamespace = { namespaces: {} };
const base = { tier: 'Admin', priority: 10, subject: everyNamespace };
const read = (spec: object) => project({ metadata, spec: { ...base, ...spec } });
const ingressOf = (rule: object) => read({ ingress: [rule] });
const egressOf = (rule: object) => read({ egress: [rule] });
const tenantA = [{ key: 'tenant', operator: 'In', values: ['a'] }];

describe('a ClusterNetworkPolicy', () => {
  it.each([
    ['of all kinds of peers', { tier: 'Baseline', priority: 1_000, ingress: [{ name: 'a', action: 'Pass', from: [everyNamespace] }] }],
    [
      'with parts that cannot be read',
      {
        ingress: [
          { action: 'Accept', from: [{ sets: {} }] },
          { action: 'Deny', from: 'x' },
        ],
      },
    ],
    [
      'with ports and networks',
      { egress: [{ action: 'Deny', to: [{ networks: ['10.0.0.0/8'] }], protocols: [{ tcp: { destinationPort: { number: 1 } } }] }] },
    ],
  ])('%s is the same after it was stored on disk', (_, spec) => {
    const policy = read(spec);
    expect(JSON.parse(JSON.stringify(policy))).toEqual(policy);
  });

  it('is read with all kinds of subjects, peers and protocols', () => {
    const pods = { namespaceSelector: { matchLabels: { tenant: 'a' } }, podSelector: {} };
    const spec = {
      tier: 'Baseline',
      priority: 1_000,
      subject: { pods },
      ingress: [{ name: 'own tenant', action: 'Pass', from: [{ pods }, { namespaces: { matchLabels: { tenant: 'a' } } }] }],
      egress: [
        {
          action: 'Accept',
          to: [{ networks: ['10.0.0.0/8', 'FD00::/8'] }, { nodes: { matchLabels: { tenant: 'a' } } }, everyNamespace],
          protocols: [
            { tcp: { destinationPort: { number: 80 } } },
            { udp: { destinationPort: { range: { start: 53, end: 54 } } } },
            { sctp: {} },
            { destinationNamedPort: 'http' },
          ],
        },
        { action: 'Deny', to: [everyNamespace] },
      ],
    };
    expect(project({ metadata, spec })).toEqual({
      name: 'tenants',
      uid: 'u1',
      generation: 2,
      createdAt: '2026-11-01T00:00:00Z',
      tier: 'baseline',
      priority: 1_000,
      subject: { namespaces: tenantA, pods: [] },
      ingress: [
        {
          name: 'own tenant',
          action: 'pass',
          peers: [
            { namespaces: tenantA, pods: [] },
            { namespaces: tenantA, pods: [] },
          ],
          protocols: 'any',
        },
      ],
      egress: [
        {
          action: 'accept',
          peers: [{ networks: ['10.0.0.0/8', 'fd00::/8'] }, { nodes: tenantA }, { namespaces: [], pods: [] }],
          protocols: [
            { protocol: 'TCP', first: 80, last: 80 },
            { protocol: 'UDP', first: 53, last: 54 },
            { protocol: 'SCTP', first: 0, last: 65_535 },
            { portName: 'http' },
          ],
        },
        { action: 'deny', peers: [{ namespaces: [], pods: [] }], protocols: 'any' },
      ],
    });
  });

  it('has the same fields in both versions of the API', () => {
    expect(path).toBe('/apis/policy.networking.k8s.io/v1beta1/clusternetworkpolicies');
    expect(clusterNetworkPoliciesOf('v1alpha2').project).toBe(project);
  });
});

describe('fields that are not understood', () => {
  const nothing = { action: 'accept', peers: [], protocols: 'any' };
  const everything = { action: 'deny', peers: 'any', protocols: 'any' };

  it.each([
    ['a peer without a known field', { to: [{}, everyNamespace] }, 'spec.egress[0].to[0]'],
    ['a peer with a field of a later version', { to: [{ serviceAccounts: {} }] }, 'serviceAccounts'],
    ['two fields', { to: [{ networks: ['10.0.0.0/8'], nodes: {} }] }, 'one known field is required'],
    ['domain names', { to: [{ domainNames: ['example.com'] }] }, 'domainNames'],
    ['no peer', { to: [] }, 'spec.egress[0].to: 1 to 100 entries are required (0)'],
    ['a network that can be read in two ways', { to: [{ networks: ['10.0.0.010/32'] }] }, '10.0.0.010/32'],
    ['an unknown operator', { to: [{ nodes: { matchExpressions: [{ key: 'a', operator: 'Gt', values: ['1'] }] } }] }, 'Gt'],
    ['a field of the rule', { to: [everyNamespace], when: 'night' }, 'when'],
  ])('in peers fail closed: %s', (_, rule, fault) => {
    for (const [action, effect] of [
      ['Accept', nothing],
      ['Deny', everything],
      ['Pass', everything],
    ] as const) {
      const policy = egressOf({ action, ...rule });
      expect(policy?.egress).toEqual([effect]);
      expect(policy?.faults?.join()).toContain(fault);
    }
  });

  it('in the action deny everything', () => {
    const policy = ingressOf({ action: 'Log', from: [everyNamespace] });
    expect([policy?.ingress, policy?.faults]).toEqual([[everything], [expect.stringContaining('"Log"')]]);
  });

  it.each([[{}], [{ icmp: {} }], [{ tcp: { sourcePort: 1 } }], [{ tcp: { destinationPort: { number: 0 } } }]])(
    'in protocols match nothing or every protocol: %j',
    (entry) => {
      const peers = [{ namespaces: [], pods: [] }];
      const of = (action: string) => ingressOf({ action, from: [everyNamespace], protocols: [{ udp: {} }, entry] })?.ingress[0];
      expect(of('Accept')).toEqual({ action: 'accept', peers, protocols: [{ protocol: 'UDP', first: 0, last: 65_535 }] });
      expect([of('Deny'), of('Pass')]).toEqual([0, 1].map(() => ({ action: 'deny', peers, protocols: 'any' })));
    },
  );

  it.each([
    ['subject', { subject: {} }, 'spec.subject'],
    ['subject of a later version', { subject: { nodes: {} } }, 'nodes'],
    ['tier', { tier: 'Platform' }, '"Platform"'],
    ['priority', { priority: 1_001 }, '1001'],
  ])('in the place of a policy select no pod: %s', (_, spec, fault) => {
    const policy = read(spec);
    expect(policy?.subject).toBeUndefined();
    expect(policy?.faults?.join()).toContain(fault);
  });

  it('in the spec are named', () => {
    expect(read({ schedule: 'daily' })?.faults).toEqual(['spec.schedule: a field unknown to this version ("daily")']);
  });
});

it('denies everything that rules beyond the limit might have denied', () => {
  const policy = read({ ingress: Array.from({ length: 101 }, () => ({ action: 'Accept', from: [everyNamespace] })) });
  expect(policy?.ingress).toHaveLength(101);
  expect(policy?.ingress[100]).toEqual({ action: 'deny', peers: 'any', protocols: 'any' });
  expect(policy?.faults).toEqual(['spec.ingress: more than 100 rules (101)']);
});

it('refuses an object without a name', () => {
  expect(() => project({ metadata: { uid: 'u' }, spec: base })).toThrow(/metadata\.name/);
});
