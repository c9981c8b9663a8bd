import { expect, it } from 'vitest';
import { exampleCluster, podObject, policyObject } from '../../../test/support/policy-cluster.ts';
import type { ReachObjects } from '../reach/objects.ts';
import type { ClusterNetworkPolicyObject, ClusterRuleObject, NetworkPolicyObject } from '../verify/reference/objects.ts';
import { lint } from './lint.ts';

type ClusterSpec = ClusterNetworkPolicyObject['spec'];

const shop = { matchLabels: { 'kubernetes.io/metadata.name': 'shop' } };
const every = { namespaces: {} };
const pods = (app: string) => ({ pods: { namespaceSelector: shop, podSelector: { matchLabels: { app } } } });
const tcp = (start: number, end = start) => ({ tcp: { destinationPort: start === end ? { number: start } : { range: { start, end } } } });
const rule = (action: ClusterRuleObject['action'], from: ClusterRuleObject['from'] = [every], ...protocols: ReturnType<typeof tcp>[]) =>
  ({ action, from, ...(protocols.length > 0 ? { protocols } : {}) }) as ClusterRuleObject;
const spec = (parts: Partial<ClusterSpec>): ClusterSpec => ({ tier: 'Admin', priority: 1, subject: { namespaces: shop }, ...parts });

interface Scene extends Partial<ReachObjects> {
  readonly cluster: readonly Partial<ClusterSpec>[];
  readonly standard?: readonly NetworkPolicyObject['spec'][];
}

function objectsOf({ cluster, standard = [], ...more }: Scene): ReachObjects {
  return {
    ...exampleCluster,
    services: [],
    networkPolicies: standard.map((each, at) => policyObject(`shop/np${at}`, each)),
    clusterNetworkPolicies: cluster.map((parts, at) => ({ metadata: { name: `c${at}` }, spec: spec(parts) })),
    ...more,
  };
}
const findingsOf = (scene: Scene) => lint(objectsOf(scene)).map(({ code, level, policy, field }) => `${level} ${code} ${policy} ${field}`);
const messagesOf = (scene: Scene) => lint(objectsOf(scene)).map(({ message }) => message);

const dns = { podSelector: {}, policyTypes: ['Egress'], egress: [{ ports: [{ protocol: 'UDP', port: 53 }] }] };
const server = podObject('kube-system/coredns', ['10.10.4.20', 'fd00:10:0:1::20'], { node: 'n2', labels: { 'k8s-app': 'kube-dns' } });
const withServer = {
  pods: [...exampleCluster.pods, server],
  namespaces: [
    ...exampleCluster.namespaces,
    { metadata: { name: 'kube-system', labels: { 'kubernetes.io/metadata.name': 'kube-system' } } },
  ],
};
const names = { action: 'Accept', to: [{ domainNames: ['api.example.com'] }] } as const;
const dnsRule = { action: 'Accept', to: [every], protocols: [{ udp: { destinationPort: { number: 53 } } }] } as const;
const denyRest = { action: 'Deny', to: [{ networks: ['0.0.0.0/0', '::/0'] }] } as const;
/** A rule of its own for each of many networks: each has a row. */
const blocks = (count: number) => ({
  podSelector: {},
  policyTypes: ['Ingress'],
  ingress: Array.from({ length: count }, (_, at) => ({
    from: [{ ipBlock: { cidr: `10.${200 + (at >> 8)}.${at & 255}.0/24` } }],
    ports: [{ port: at + 1 }],
  })),
});

it.each<[string, Scene, readonly string[]]>([
  [
    'P01: a rule after one for every peer',
    { cluster: [{ ingress: [rule('Deny'), rule('Accept', [pods('api')])] }] },
    ['warning P01 c0 spec.ingress[1]'],
  ],
  [
    'P01: a rule whose ports two others share',
    {
      cluster: [
        { ingress: [rule('Deny', [every], tcp(1, 80)), rule('Accept', [every], tcp(81, 100)), rule('Pass', [every], tcp(50, 90))] },
      ],
    },
    ['warning P01 c0 spec.ingress[2]'],
  ],
  [
    'P01: a rule of a policy of lower precedence',
    { cluster: [{ priority: 2, ingress: [rule('Accept', [pods('api')])] }, { ingress: [rule('Pass')] }] },
    ['warning P01 c0 spec.ingress[0]'],
  ],
  [
    'P02: a contradiction',
    { cluster: [{ ingress: [rule('Deny', [pods('api')])] }, { ingress: [rule('Accept', [every], tcp(80))] }] },
    ['error P02 c1 spec.priority'],
  ],
  [
    'P02: Pass and Deny',
    { cluster: [{ ingress: [rule('Pass', [pods('api')])] }, { ingress: [rule('Deny')] }] },
    ['error P02 c1 spec.priority'],
  ],
  ['P03: a subject without pods', { cluster: [{ subject: pods('none'), ingress: [rule('Deny')] }] }, ['warning P03 c0 spec.subject']],
  ['P03: a peer without pods', { cluster: [{ ingress: [rule('Deny', [pods('none')])] }] }, ['warning P03 c0 spec.ingress[0].from[0]']],
  [
    'P05 and P12: names that open nothing',
    { cluster: [{ egress: [names, dnsRule] }] },
    ['error P12 c0 spec.egress[0].to[0]', 'error P12 c0 spec.egress[0].to[0]', 'warning P05 c0 spec.egress[0]'],
  ],
  [
    'P05: names without DNS',
    { cluster: [{ egress: [names, denyRest] }], ...withServer },
    ['error P12 c0 spec.egress[0].to[0]', 'error P12 c0 spec.egress[0].to[0]', 'warning P05 c0 spec.egress[0]'],
  ],
  [
    'P10: a Baseline rule for isolated pods',
    { cluster: [{ tier: 'Baseline', ingress: [rule('Deny')] }], standard: [{ podSelector: {} }] },
    ['warning P10 c0 spec.ingress[0]'],
  ],
  [
    'P11: an Accept of everything',
    {
      cluster: [{ ingress: [rule('Accept')] }, { priority: 9, egress: [{ action: 'Accept', to: [{ networks: ['0.0.0.0/0', '::/0'] }] }] }],
      standard: [dns],
    },
    ['warning P11 c1 spec.egress[0]'],
  ],
  [
    'P12: a field of a newer version',
    { cluster: [{ egress: [{ action: 'Deny', to: [{ later: 1 } as object] }] }] },
    ['error P12 c0 spec.egress[0].to[0]', 'error P12 c0 spec.egress[0].to[0]'],
  ],
  ['P13: many networks, each with a port', { cluster: [], standard: [blocks(1_001)] }, ['warning P13 shop/np0 spec.ingress']],
])('finds %s', (_, scene, found) => {
  expect(findingsOf(scene)).toEqual(found);
});

it.each<[string, Scene]>([
  ['P01: the rest of a range', { cluster: [{ ingress: [rule('Deny', [every], tcp(1, 80)), rule('Accept', [every], tcp(50, 90))] }] }],
  ['P01: a Pass that decides about something', { cluster: [{ ingress: [rule('Pass', [pods('api')]), rule('Deny')] }] }],
  [
    'P01: a rule for another subject',
    {
      cluster: [
        { subject: pods('db'), ingress: [rule('Deny')] },
        { priority: 2, ingress: [rule('Accept')] },
      ],
    },
  ],
  ['P02: the same action', { cluster: [{ ingress: [rule('Deny', [pods('api')])] }, { ingress: [rule('Deny')] }] }],
  ['P02: other ports', { cluster: [{ ingress: [rule('Deny', [every], tcp(80))] }, { ingress: [rule('Accept', [every], tcp(81))] }] }],
  [
    'P02: other priorities',
    { cluster: [{ ingress: [rule('Deny', [pods('api')])] }, { priority: 2, ingress: [rule('Accept', [every], tcp(80))] }] },
  ],
  [
    'P02: other subjects',
    {
      cluster: [
        { subject: pods('db'), ingress: [rule('Deny')] },
        { subject: pods('api'), ingress: [rule('Accept')] },
      ],
    },
  ],
  [
    'P02: an earlier policy decides',
    {
      cluster: [
        { priority: 0, ingress: [rule('Deny', [pods('web')], tcp(80))] },
        { ingress: [rule('Deny', [pods('api')])] },
        { ingress: [rule('Accept', [pods('web')])] },
      ],
    },
  ],
  [
    'P10: a pod that no NetworkPolicy isolates',
    { cluster: [{ tier: 'Baseline', ingress: [rule('Deny')] }], standard: [{ podSelector: { matchLabels: { app: 'db' } } }] },
  ],
  ['P11: an Accept of one port', { cluster: [{ ingress: [rule('Accept', [every], tcp(80))] }], standard: [{ podSelector: {} }] }],
  ['P11: a pod without NetworkPolicies', { cluster: [{ ingress: [rule('Accept')] }] }],
  ['P13: fewer networks', { cluster: [], standard: [blocks(900)] }],
])('does not find %s', (_, scene) => {
  expect(findingsOf(scene)).toEqual([]);
});

it('does not report names with a Deny below and DNS', () => {
  const found = lint(objectsOf({ cluster: [{ egress: [names, dnsRule, denyRest] }], ...withServer })).map(({ code }) => code);
  expect(new Set(found)).toEqual(new Set(['P12']));
});

it('names a connection, and the rules that decide', () => {
  expect(messagesOf({ cluster: [{ ingress: [rule('Deny'), rule('Accept', [pods('api')])] }] })[0]).toMatch(
    /^Earlier rules decide about every connection that it matches, such as shop\/api to shop\/\w+, protocols without ports: c0 spec\.ingress\[0\] decides\./,
  );
  expect(messagesOf({ cluster: [{ ingress: [rule('Deny', [pods('api')])] }, { ingress: [rule('Accept', [every], tcp(80))] }] })[0]).toMatch(
    /^shop\/api to shop\/\w+, TCP 80: c0 spec\.ingress\[0\] \(Deny\) and c1 spec\.ingress\[0\] \(Accept\) have priority 1 of tier Admin\./,
  );
});
