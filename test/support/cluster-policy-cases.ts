import type { ClusterNetworkPolicyObject, ClusterRuleObject } from '../../src/policy/verify/reference/objects.ts';
import type { PolicyCase } from './policy-cases.ts';
import { policyObject } from './policy-cluster.ts';

/** Cluster policies of the example cluster, and the connections that they allow and deny, as in `policyCases`. */
export interface ClusterPolicyCase extends PolicyCase {
  readonly clusterPolicies: readonly ClusterNetworkPolicyObject[];
}

type Spec = ClusterNetworkPolicyObject['spec'];
const everything = { namespaces: {} } as const;
const tcp = (number: number) => ({ tcp: { destinationPort: { number } } });
const app = (name: string) => ({ pods: { namespaceSelector: {}, podSelector: { matchLabels: { app: name } } } });
const env = (name: string) => ({ namespaces: { matchLabels: { env: name } } });

export function clusterPolicyObject(name: string, spec: Partial<Spec>, creationTimestamp?: string): ClusterNetworkPolicyObject {
  return {
    metadata: { name, ...(creationTimestamp === undefined ? {} : { creationTimestamp }) },
    spec: { tier: 'Admin', priority: 10, subject: app('db'), ...spec },
  };
}

type Probes = readonly string[];
const one = (
  name: string,
  spec: Partial<Spec>,
  allowed: Probes,
  denied: Probes,
  policies: PolicyCase['policies'] = [],
): ClusterPolicyCase => ({
  name,
  clusterPolicies: [clusterPolicyObject('only', spec)],
  policies,
  allowed,
  denied,
});
const ingress = (name: string, rules: readonly ClusterRuleObject[], allowed: Probes, denied: Probes): ClusterPolicyCase =>
  one(name, { ingress: rules }, allowed, denied);
const egress = (name: string, rules: readonly ClusterRuleObject[], allowed: Probes, denied: Probes): ClusterPolicyCase =>
  one(name, { subject: app('api'), egress: rules }, allowed, denied);

const isolated = policyObject('shop/isolated', { podSelector: { matchLabels: { app: 'db' } } });
const open = policyObject('shop/open', { podSelector: { matchLabels: { app: 'db' } }, ingress: [{}] });

const tiers: readonly ClusterPolicyCase[] = [
  one('without rules a cluster policy isolates no pod', {}, ['api > db TCP/1', 'external > db ICMP', 'db > external UDP/53'], []),
  one(
    'the Admin tier denies what a NetworkPolicy allows',
    { ingress: [{ action: 'Deny', from: [env('dev')] }] },
    ['api > db TCP/1', 'external > db TCP/1'],
    ['toy > db TCP/1'],
    [open],
  ),
  one(
    'the Admin tier accepts what NetworkPolicies deny',
    { ingress: [{ action: 'Accept', from: [app('api')], protocols: [tcp(80)] }] },
    ['api > db TCP/80', 'toy > db TCP/80'],
    ['api > db TCP/81', 'web > db TCP/80', 'api > db ICMP'],
    [isolated],
  ),
  one(
    'Pass leaves a connection to NetworkPolicies',
    {
      ingress: [
        { action: 'Pass', from: [app('api')] },
        { action: 'Accept', from: [everything] },
      ],
    },
    ['web > db TCP/1'],
    ['api > db TCP/1', 'toy > db TCP/1'],
    [isolated],
  ),
  one(
    'the Baseline tier denies pods that no NetworkPolicy isolates',
    { tier: 'Baseline', ingress: [{ action: 'Deny', from: [everything] }] },
    ['external > db TCP/1'],
    ['api > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  one(
    'a NetworkPolicy is final for the pods that it isolates',
    { tier: 'Baseline', ingress: [{ action: 'Deny', from: [everything] }] },
    ['api > db TCP/1', 'unknown pod > db TCP/1'],
    [],
    [open],
  ),
  one(
    'a NetworkPolicy isolates one direction: the Baseline tier decides the other one',
    { tier: 'Baseline', egress: [{ action: 'Deny', to: [everything] }] },
    ['db > external TCP/1', 'api > db TCP/1'],
    ['db > web TCP/1', 'db > api TCP/1'],
    [open],
  ),
  one(
    'Pass in the Baseline tier allows',
    {
      tier: 'Baseline',
      ingress: [
        { action: 'Pass', from: [app('api')] },
        { action: 'Deny', from: [everything] },
      ],
    },
    ['api > db TCP/1', 'toy > db TCP/1'],
    ['web > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  {
    name: 'both tiers and NetworkPolicies decide in order',
    clusterPolicies: [
      clusterPolicyObject('admin', {
        ingress: [
          { action: 'Deny', from: [app('api')], protocols: [tcp(1)] },
          { action: 'Pass', from: [everything] },
        ],
      }),
      clusterPolicyObject('baseline', {
        tier: 'Baseline',
        ingress: [
          { action: 'Accept', from: [app('api')] },
          { action: 'Deny', from: [everything] },
        ],
      }),
    ],
    policies: [],
    allowed: ['api > db TCP/2', 'toy > db UDP/1', 'external > db TCP/1'],
    denied: ['api > db TCP/1', 'web > db TCP/2', 'agent > db ICMP'],
  },
  {
    name: 'both ends are evaluated, each by its own policies',
    clusterPolicies: [
      clusterPolicyObject('out', { subject: app('api'), egress: [{ action: 'Accept', to: [everything] }] }),
      clusterPolicyObject('in', { ingress: [{ action: 'Deny', from: [app('api')] }] }),
    ],
    policies: [],
    allowed: ['api > web TCP/1'],
    denied: ['api > db TCP/1', 'toy > db TCP/1'],
  },
];

const orders: readonly ClusterPolicyCase[] = [
  ingress(
    'the first rule that matches decides',
    [
      { action: 'Accept', from: [app('api')] },
      { action: 'Deny', from: [everything] },
    ],
    ['api > db TCP/1', 'toy > db TCP/1', 'external > db TCP/1'],
    ['web > db TCP/1', 'scraper > db TCP/1'],
  ),
  ingress(
    'rules of overlapping ports are cut by their order',
    [
      { action: 'Deny', from: [everything], protocols: [tcp(80)] },
      { action: 'Accept', from: [everything], protocols: [{ tcp: { destinationPort: { range: { start: 70, end: 90 } } } }] },
      { action: 'Deny', from: [everything] },
    ],
    ['api > db TCP/70', 'api > db TCP/79', 'api > db TCP/81', 'api > db TCP/90'],
    ['api > db TCP/80', 'api > db TCP/69', 'api > db TCP/91', 'api > db UDP/75', 'api > db ICMP'],
  ),
  {
    name: 'the lowest priority number decides',
    clusterPolicies: [
      clusterPolicyObject('a', { priority: 20, ingress: [{ action: 'Deny', from: [everything] }] }),
      clusterPolicyObject('b', { priority: 3, ingress: [{ action: 'Accept', from: [app('api')] }] }),
      clusterPolicyObject('c', { priority: 100, ingress: [{ action: 'Accept', from: [everything] }] }),
    ],
    policies: [],
    allowed: ['api > db TCP/1'],
    denied: ['web > db TCP/1'],
  },
  {
    name: 'of equal priorities the older policy decides, then the name',
    clusterPolicies: [
      clusterPolicyObject('a', { ingress: [{ action: 'Deny', from: [app('api')] }] }, '2026-11-02T00:00:00Z'),
      clusterPolicyObject(
        'b',
        {
          ingress: [
            { action: 'Accept', from: [app('api')] },
            { action: 'Accept', from: [app('web')] },
          ],
        },
        '2026-11-01T00:00:00Z',
      ),
      clusterPolicyObject('c', { ingress: [{ action: 'Deny', from: [app('web'), app('scraper')] }] }, '2026-11-01T00:00:00Z'),
      clusterPolicyObject('d', { ingress: [{ action: 'Accept', from: [app('scraper')] }] }, '2026-11-01T00:00:00Z'),
    ],
    policies: [],
    allowed: ['api > db TCP/1', 'web > db TCP/1'],
    denied: ['scraper > db TCP/1'],
  },
];

const subjects: readonly ClusterPolicyCase[] = [
  one(
    'a subject of namespaces',
    { subject: env('prod'), ingress: [{ action: 'Deny', from: [env('dev')] }] },
    ['api > db TCP/1', 'toy > toy TCP/1'],
    ['toy > db TCP/1', 'toy > agent TCP/1'],
  ),
  one(
    'a subject of pods in some namespaces',
    {
      subject: { pods: { namespaceSelector: { matchLabels: { team: 'sre' } }, podSelector: { matchLabels: { app: 'agent' } } } },
      ingress: [{ action: 'Deny', from: [everything] }],
    },
    ['toy > db TCP/1'],
    ['toy > agent TCP/1', 'db > agent TCP/1'],
  ),
  one(
    'neither pods with host network nor pods that ended are subjects',
    { subject: everything, ingress: [{ action: 'Deny', from: [everything] }] },
    ['api > n2 TCP/1', 'api > done TCP/1'],
    ['api > agent TCP/1'],
  ),
  one(
    'the own node reaches its pods, other nodes are evaluated',
    { ingress: [{ action: 'Deny', from: [everything] }] },
    ['n1 > db TCP/1', 'gateway of n1 > db TCP/1', 'n2 > db TCP/1'],
    ['api > db TCP/1'],
  ),
  one(
    'a pod reaches itself',
    { subject: everything, ingress: [{ action: 'Deny', from: [everything] }], egress: [{ action: 'Deny', to: [everything] }] },
    ['db > db TCP/1'],
    ['db > api TCP/1'],
  ),
  one(
    'a subject that cannot be read selects nothing',
    { subject: {}, ingress: [{ action: 'Deny', from: [everything] }] },
    ['api > db TCP/1'],
    [],
  ),
];

const peers: readonly ClusterPolicyCase[] = [
  egress(
    'networks match the address of the packet, of pods too',
    [{ action: 'Deny', to: [{ networks: ['10.10.4.0/22', '203.0.113.0/24', 'fd00:10:0:1::/64', '2001:db8::/32'] }] }],
    ['api > db TCP/1'],
    ['api > web TCP/1', 'api > external ICMP', 'api > unknown pod TCP/1'],
  ),
  egress(
    'a network with an address of a node includes its gateway address',
    [{ action: 'Deny', to: [{ networks: ['192.168.77.2/32', 'fd00:77::2/128'] }] }],
    ['api > n1 TCP/1', 'api > web TCP/1'],
    ['api > n2 TCP/1', 'api > gateway of n2 TCP/1'],
  ),
  egress(
    'nodes match their addresses and gateway addresses',
    [{ action: 'Deny', to: [{ nodes: { matchLabels: { zone: 'b' } } }] }],
    ['api > n1 TCP/1', 'api > gateway of n1 TCP/1', 'api > web TCP/1', 'api > external TCP/1'],
    ['api > n2 TCP/1', 'api > gateway of n2 UDP/53'],
  ),
  egress(
    'the own node is a node too',
    [{ action: 'Deny', to: [{ nodes: {} }] }],
    ['api > db TCP/1', 'api > external TCP/1'],
    ['api > n1 TCP/1', 'api > gateway of n1 TCP/1', 'api > n2 ICMP'],
  ),
  egress(
    'namespaces never match nodes or external addresses',
    [{ action: 'Deny', to: [everything] }],
    ['api > n2 TCP/1', 'api > external TCP/1', 'api > gateway of n2 TCP/1'],
    ['api > db TCP/1', 'api > unknown pod TCP/1'],
  ),
  ingress(
    'a Deny by labels denies pods that are not known',
    [{ action: 'Deny', from: [app('web')] }],
    ['api > db TCP/1', 'external > db TCP/1', 'n2 > db TCP/1'],
    ['web > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  ingress(
    'so does a Pass by labels',
    [{ action: 'Pass', from: [env('prod')] }],
    ['api > db TCP/1', 'toy > db TCP/1', 'external > db TCP/1'],
    ['unknown pod > db TCP/1'],
  ),
  ingress(
    'an Accept by labels does not match them',
    [
      { action: 'Accept', from: [env('prod')] },
      { action: 'Deny', from: [everything] },
    ],
    ['api > db TCP/1'],
    ['unknown pod > db TCP/1', 'toy > db TCP/1'],
  ),
  ingress(
    'a Deny by labels denies them on its ports only',
    [{ action: 'Deny', from: [app('web')], protocols: [tcp(80)] }],
    ['unknown pod > db TCP/81', 'unknown pod > db ICMP', 'web > db TCP/81'],
    ['web > db TCP/80', 'unknown pod > db TCP/80'],
  ),
];

const protocols: readonly ClusterPolicyCase[] = [
  ingress(
    'a rule without protocols matches all, ICMP too',
    [{ action: 'Deny', from: [app('api')] }],
    ['web > db ICMP'],
    ['api > db ICMP', 'api > db TCP/1', 'api > db SCTP/7', 'api > db GRE'],
  ),
  ingress(
    'a protocol without ports matches all its ports',
    [{ action: 'Deny', from: [app('api')], protocols: [{ sctp: {} }] }],
    ['api > db TCP/1', 'api > db ICMP'],
    ['api > db SCTP/7', 'api > db SCTP/65535'],
  ),
  ingress(
    'a named port of ingress is that of the subject, with its protocol',
    [{ action: 'Deny', from: [everything], protocols: [{ destinationNamedPort: 'sql' }, { destinationNamedPort: 'missing' }] }],
    ['api > db TCP/8080', 'api > db UDP/5432'],
    ['api > db TCP/5432', 'unknown pod > db TCP/5432'],
  ),
  egress(
    'a named port of egress is that of each peer, with its protocol',
    [{ action: 'Deny', to: [everything], protocols: [{ destinationNamedPort: 'http' }] }],
    ['api > db TCP/8081', 'api > web TCP/8080', 'api > toy TCP/53', 'api > agent TCP/8080'],
    ['api > db TCP/8080', 'api > web TCP/8081', 'api > toy UDP/53'],
  ),
  egress(
    'an Accept for a named port does not match unknown pods, a Deny denies them',
    [
      { action: 'Accept', to: [everything], protocols: [{ destinationNamedPort: 'http' }] },
      { action: 'Deny', to: [everything], protocols: [{ destinationNamedPort: 'sql' }] },
    ],
    ['api > web TCP/8081', 'api > web TCP/1'],
    ['api > db TCP/5432', 'api > unknown pod TCP/1', 'api > unknown pod ICMP'],
  ),
];

const unknownField = { serviceAccounts: {} } as unknown as typeof everything;
const failures: readonly ClusterPolicyCase[] = [
  ingress(
    'an Accept with a peer that is not understood matches nothing',
    [
      { action: 'Accept', from: [app('api'), unknownField] },
      { action: 'Deny', from: [app('api')] },
    ],
    ['web > db TCP/1'],
    ['api > db TCP/1'],
  ),
  ingress(
    'a Deny with such a peer denies everything',
    [{ action: 'Deny', from: [app('api'), unknownField], protocols: [tcp(80)] }],
    ['n1 > db TCP/1'],
    ['api > db TCP/1', 'external > db ICMP', 'n2 > db TCP/1'],
  ),
  ingress('so does a Pass', [{ action: 'Pass', from: [unknownField] }], [], ['web > db TCP/80', 'external > db TCP/80']),
  egress(
    'so do domain names in a Deny',
    [{ action: 'Deny', to: [{ domainNames: ['example.com'] }] }],
    [],
    ['api > external TCP/1', 'api > db TCP/1', 'api > n1 TCP/1'],
  ),
  egress(
    'domain names in an Accept match nothing',
    [
      { action: 'Accept', to: [{ domainNames: ['example.com'] }] },
      { action: 'Deny', to: [{ networks: ['203.0.113.0/24', '2001:db8::/32'] }] },
    ],
    ['api > db TCP/1'],
    ['api > external TCP/1'],
  ),
  ingress(
    'a protocol that is not understood: an Accept has its other protocols',
    [
      { action: 'Accept', from: [app('api')], protocols: [tcp(80), {}] },
      { action: 'Deny', from: [app('api')] },
    ],
    ['api > db TCP/80'],
    ['api > db TCP/81'],
  ),
  ingress(
    'a protocol that is not understood: a Deny denies every protocol of its peers',
    [{ action: 'Deny', from: [app('api')], protocols: [tcp(80), {}] }],
    ['web > db TCP/1'],
    ['api > db TCP/80', 'api > db ICMP'],
  ),
  ingress(
    'a protocol that is not understood: so does a Pass',
    [{ action: 'Pass', from: [app('api')], protocols: [tcp(80), {}] }],
    ['web > db TCP/1'],
    ['api > db TCP/80', 'api > db ICMP'],
  ),
];

export const clusterPolicyCases: readonly ClusterPolicyCase[] = [...tiers, ...orders, ...subjects, ...peers, ...protocols, ...failures];
