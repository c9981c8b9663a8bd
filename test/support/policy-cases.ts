import type { NetworkPolicyObject } from '../../src/policy/verify/reference/objects.ts';
import { policyObject } from './policy-cluster.ts';

/** Policies of the example cluster, and allowed traffic: `source > destination protocol/port` by the cluster's short names. */
export interface PolicyCase {
  readonly name: string;
  readonly policies: readonly NetworkPolicyObject[];
  readonly allowed: readonly string[];
  readonly denied: readonly string[];
}

type Spec = NetworkPolicyObject['spec'];
const everyPod = { podSelector: {} } as const;
const db = { podSelector: { matchLabels: { app: 'db' } } } as const;
const api = { podSelector: { matchLabels: { app: 'api' } } } as const;

const one = (name: string, spec: Spec, allowed: readonly string[], denied: readonly string[]): PolicyCase => ({
  name,
  policies: [policyObject('shop/only', spec)],
  allowed,
  denied,
});
const ingress = (
  name: string,
  rule: NonNullable<Spec['ingress']>[number],
  allowed: readonly string[],
  denied: readonly string[],
): PolicyCase => one(name, { ...db, ingress: [rule] }, allowed, denied);
const egress = (
  name: string,
  rule: NonNullable<Spec['egress']>[number],
  allowed: readonly string[],
  denied: readonly string[],
): PolicyCase => one(name, { ...api, policyTypes: ['Egress'], egress: [rule] }, allowed, denied);

const selectors: readonly PolicyCase[] = [
  { name: 'no policy', policies: [], allowed: ['external > db TCP/1', 'api > db ICMP', 'db > external UDP/53'], denied: [] },
  one(
    'default deny ingress',
    everyPod,
    ['api > external TCP/1', 'db > toy TCP/80'],
    ['api > db TCP/1', 'external > db ICMP', 'db > api TCP/8080'],
  ),
  one(
    'default deny all',
    { ...everyPod, policyTypes: ['Ingress', 'Egress'] },
    ['toy > scraper TCP/80'],
    ['api > db TCP/1', 'db > external ICMP', 'db > n1 TCP/1'],
  ),
  one('another namespace’s pods are not selected', everyPod, ['api > toy TCP/1', 'api > agent TCP/1'], ['toy > db TCP/1']),
  one('ended pods are never subjects', everyPod, ['external > done TCP/1'], []),
  one('only types that are listed isolate', { ...db, policyTypes: ['Egress'], ingress: [] }, ['external > db TCP/1'], ['db > api TCP/1']),
  one('rules of an unlisted type are ignored', { ...db, policyTypes: ['Ingress'], egress: [{}] }, ['db > api TCP/1'], ['api > db TCP/1']),
  one('egress rules without types isolate both ways', { ...db, egress: [{}] }, ['db > external TCP/1'], ['api > db TCP/1']),
  one('no egress rule without types does not', { ...db, egress: [] }, ['db > external TCP/1'], ['api > db TCP/1']),
  one(
    'expressions select',
    { podSelector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['another', 'db'] }] } },
    ['db > api TCP/1'],
    ['api > db TCP/1'],
  ),
  one(
    'NotIn selects pods without the key',
    { podSelector: { matchExpressions: [{ key: 'tier', operator: 'NotIn', values: ['front'] }] } },
    ['db > api TCP/1'],
    ['api > db TCP/1'],
  ),
  one(
    'DoesNotExist and Exists',
    {
      podSelector: {
        matchExpressions: [
          { key: 'tier', operator: 'DoesNotExist' },
          { key: 'app', operator: 'Exists' },
        ],
      },
    },
    ['db > api TCP/1'],
    ['api > db TCP/1'],
  ),
  {
    name: 'policies add up, without an order',
    policies: [
      policyObject('shop/a', everyPod),
      policyObject('shop/b', { ...db, ingress: [{ from: [api] }] }),
      policyObject('shop/c', { ...db, ingress: [{ ports: [{ port: 5432 }] }] }),
    ],
    allowed: ['api > db UDP/9', 'external > db TCP/5432', 'toy > db TCP/5432'],
    denied: ['external > db TCP/5433', 'toy > db UDP/5432', 'db > api TCP/8080'],
  },
  {
    name: 'both ends must allow',
    policies: [
      policyObject('shop/in', { ...db, ingress: [{ ports: [{ port: 80, endPort: 90 }] }] }),
      policyObject('shop/out', { ...api, policyTypes: ['Egress'], egress: [{ ports: [{ port: 85, endPort: 95 }] }] }),
    ],
    allowed: ['api > db TCP/85', 'api > db TCP/90', 'external > db TCP/80', 'api > external TCP/95'],
    denied: ['api > db TCP/84', 'api > db TCP/91'],
  },
];

const peers: readonly PolicyCase[] = [
  ingress('no peers are everybody', {}, ['external > db TCP/1', 'n2 > db ICMP', 'unknown pod > db SCTP/7'], []),
  ingress('an empty list of peers is everybody', { from: [] }, ['external > db TCP/1'], []),
  ingress('null is an empty list', { from: null, ports: null }, ['external > db TCP/1', 'external > db ICMP'], []),
  ingress(
    'a pod selector means the own namespace',
    { from: [api] },
    ['api > db TCP/1'],
    ['toy > db TCP/1', 'web > db TCP/1', 'external > db TCP/1'],
  ),
  ingress(
    'an empty pod selector is the whole own namespace',
    { from: [{ podSelector: {} }] },
    ['api > db TCP/1', 'web > db ICMP'],
    ['toy > db TCP/1', 'agent > db TCP/1', 'external > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  ingress(
    'a namespace selector is all pods there',
    { from: [{ namespaceSelector: { matchLabels: { env: 'prod' } } }] },
    ['agent > db TCP/1', 'scraper > db TCP/1', 'api > db TCP/1'],
    ['toy > db TCP/1', 'n2 > db TCP/1', 'external > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  ingress(
    'both selectors are the intersection',
    { from: [{ namespaceSelector: { matchLabels: { env: 'dev' } }, ...api }] },
    ['toy > db TCP/1'],
    ['api > db TCP/1', 'agent > db TCP/1'],
  ),
  ingress(
    'two peers are the union',
    { from: [{ namespaceSelector: { matchLabels: { env: 'dev' } } }, api] },
    ['toy > db TCP/1', 'api > db TCP/1'],
    ['web > db TCP/1'],
  ),
  ingress(
    'an empty namespace selector is every pod, and never an external client or a node',
    { from: [{ namespaceSelector: {} }] },
    ['toy > db TCP/1', 'api > db TCP/1', 'unknown pod > db TCP/1', 'done > db TCP/1'],
    ['external > db TCP/1', 'n2 > db TCP/1', 'gateway of n2 > db TCP/1', 'external by n2 > db TCP/1'],
  ),
  ingress(
    'every namespace with a pod selector needs a known pod',
    { from: [{ namespaceSelector: {}, ...api }] },
    ['toy > db TCP/1', 'api > db TCP/1'],
    ['unknown pod > db TCP/1', 'done > db TCP/1', 'web > db TCP/1'],
  ),
  ingress(
    'the name of a namespace is a label',
    { from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ops' } } }] },
    ['agent > db TCP/1'],
    ['api > db TCP/1', 'toy > db TCP/1'],
  ),
  ingress(
    'namespaces without the key',
    { from: [{ namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'DoesNotExist' }] } }] },
    ['toy > db TCP/1', 'api > db TCP/1'],
    ['agent > db TCP/1', 'external > db TCP/1', 'unknown pod > db TCP/1'],
  ),
  ingress(
    'pods of the host network are nodes',
    { from: [{ namespaceSelector: {}, podSelector: { matchLabels: { app: 'agent' } } }] },
    ['agent > db TCP/1'],
    ['n2 > db TCP/1'],
  ),
  egress(
    'to pods',
    { to: [db] },
    ['api > db TCP/1', 'web > external TCP/1'],
    ['api > web TCP/1', 'api > external TCP/1', 'api > n1 TCP/1'],
  ),
  egress(
    'to every pod',
    { to: [{ namespaceSelector: {} }] },
    ['api > toy TCP/1', 'api > unknown pod TCP/1'],
    ['api > external TCP/1', 'api > n2 TCP/1'],
  ),
];

const blocks: readonly PolicyCase[] = [
  ingress(
    'a block is by the packet’s address, pods’ too',
    { from: [{ ipBlock: { cidr: '10.0.0.0/8' } }] },
    ['10.10.4.10 > db TCP/1', '10.10.6.77 > db TCP/1', '10.10.4.1 > db TCP/1', '10.99.1.1 > db TCP/1'],
    ['external > db TCP/1', 'n2 > db TCP/1'],
  ),
  ingress(
    'except takes away',
    { from: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.10.4.0/22', '10.99.1.1/32'] } }] },
    ['10.10.0.6 > db TCP/1', '10.99.1.2 > db TCP/1'],
    ['toy > db TCP/1', '10.99.1.1 > db TCP/1'],
  ),
  ingress(
    'except takes away from its own block only',
    { from: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.10.0.0/16'] } }, { ipBlock: { cidr: '10.10.4.0/24' } }] },
    ['10.10.4.10 > db TCP/1', '10.11.0.1 > db TCP/1'],
    ['api > db TCP/1'],
  ),
  ingress(
    'a pod in an except may be let in as a pod',
    { from: [{ ipBlock: { cidr: '10.0.0.0/8', except: ['10.10.0.0/16'] } }, { namespaceSelector: { matchLabels: { env: 'dev' } } }] },
    ['toy > db TCP/1'],
    ['api > db TCP/1'],
  ),
  ingress(
    'all of one family',
    { from: [{ ipBlock: { cidr: '0.0.0.0/0' } }] },
    ['203.0.113.9 > db TCP/1', '10.10.4.7 > db ICMP'],
    ['2001:db8::9 > db TCP/1'],
  ),
  ingress(
    'all of the other',
    { from: [{ ipBlock: { cidr: '::/0', except: ['fd00:10::/48'] } }] },
    ['2001:db8::9 > db TCP/1'],
    ['203.0.113.9 > db TCP/1', 'fd00:10::6 > db TCP/1'],
  ),
  ingress(
    'host bits are cleared',
    { from: [{ ipBlock: { cidr: '203.0.113.77/24' } }] },
    ['203.0.113.9 > db TCP/1'],
    ['203.0.114.9 > db TCP/1'],
  ),
  ingress(
    'a block of nodes is their gateways too',
    { from: [{ ipBlock: { cidr: '192.168.77.0/24' } }, { ipBlock: { cidr: 'fd00:77::/64' } }] },
    ['n2 > db TCP/1', 'gateway of n2 > db TCP/1', 'external by n2 > db TCP/1'],
    ['toy > db TCP/1', 'unknown pod > db TCP/1', 'external > db TCP/1'],
  ),
  egress(
    'to external addresses but not to metadata',
    { to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['169.254.0.0/16', '10.0.0.0/8'] } }] },
    ['api > 203.0.113.9 TCP/443', 'api > 192.168.77.1 TCP/1'],
    ['api > 169.254.169.254 TCP/80', 'api > 10.10.0.5 TCP/1', 'api > 2001:db8::9 TCP/1'],
  ),
];

const ports: readonly PolicyCase[] = [
  ingress(
    'no ports are every protocol',
    { from: [api] },
    ['api > db TCP/1', 'api > db UDP/0', 'api > db SCTP/65535', 'api > db ICMP', 'api > db GRE'],
    [],
  ),
  ingress(
    'a port, of TCP by default',
    { ports: [{ port: 5432 }] },
    ['external > db TCP/5432'],
    ['external > db TCP/5431', 'external > db TCP/5433', 'external > db UDP/5432', 'external > db SCTP/5432', 'external > db ICMP'],
  ),
  ingress(
    'all ports of a protocol',
    { ports: [{ protocol: 'UDP' }] },
    ['external > db UDP/0', 'external > db UDP/65535'],
    ['external > db TCP/1', 'external > db ICMP', 'external > db GRE'],
  ),
  ingress(
    'a range has both ends',
    { ports: [{ protocol: 'SCTP', port: 1000, endPort: 2000 }] },
    ['external > db SCTP/1000', 'external > db SCTP/1500', 'external > db SCTP/2000'],
    ['external > db SCTP/999', 'external > db SCTP/2001', 'external > db TCP/1500'],
  ),
  ingress(
    'ranges of two rules overlap',
    { ports: [{ port: 10, endPort: 30 }, { port: 20, endPort: 40 }, { port: 35 }] },
    ['external > db TCP/10', 'external > db TCP/25', 'external > db TCP/40'],
    ['external > db TCP/9', 'external > db TCP/41'],
  ),
  ingress(
    'a name is the subject’s',
    { ports: [{ port: 'sql' }] },
    ['external > db TCP/5432', 'api > db TCP/5432', '10.10.4.10 > db TCP/5432'],
    ['external > db TCP/8080', 'external > db UDP/5432', 'external > db TCP/9100'],
  ),
  ingress('a sidecar’s name counts', { ports: [{ port: 'metrics' }] }, ['external > db TCP/9100'], ['external > db TCP/5432']),
  ingress('an init container’s does not', { ports: [{ port: 'once' }] }, [], ['external > db TCP/7000']),
  ingress(
    'an unknown name matches nothing',
    { ports: [{ port: 'nowhere' }] },
    [],
    ['external > db TCP/1', 'external > db TCP/5432', 'external > db ICMP'],
  ),
  ingress(
    'a name with another protocol matches nothing',
    { ports: [{ port: 'sql', protocol: 'UDP' }] },
    [],
    ['external > db UDP/5432', 'external > db TCP/5432'],
  ),
  ingress(
    'a name with a block is the subject’s too',
    { from: [{ ipBlock: { cidr: '203.0.113.0/24' } }, { ipBlock: { cidr: '2001:db8::/32' } }], ports: [{ port: 'sql' }] },
    ['external > db TCP/5432'],
    ['external > db TCP/5433', 'api > db TCP/5432'],
  ),
  egress(
    'a name is each peer’s',
    { to: [{ podSelector: {} }], ports: [{ port: 'http' }] },
    ['api > db TCP/8080', 'api > web TCP/8081'],
    ['api > db TCP/8081', 'api > web TCP/8080', 'api > toy TCP/8080', 'api > external TCP/8080'],
  ),
  egress(
    'a name to everybody is to pods that have it',
    { ports: [{ port: 'http' }] },
    ['api > db TCP/8080', 'api > web TCP/8081'],
    ['api > toy TCP/53', 'api > toy UDP/53', 'api > external TCP/8080', 'api > n2 TCP/8080', 'api > unknown pod TCP/8080'],
  ),
  egress(
    'a name and its protocol',
    { to: [{ namespaceSelector: {} }], ports: [{ port: 'http', protocol: 'UDP' }] },
    ['api > toy UDP/53'],
    ['api > toy TCP/53', 'api > db UDP/8080', 'api > unknown pod UDP/53'],
  ),
  egress(
    'a name with a block matches nothing',
    { to: [{ ipBlock: { cidr: '0.0.0.0/0' } }, { ipBlock: { cidr: '::/0' } }], ports: [{ port: 'http' }] },
    [],
    ['api > db TCP/8080', 'api > web TCP/8081', 'api > external TCP/80'],
  ),
  egress(
    'a name beside a number',
    { to: [db], ports: [{ port: 'sql' }, { port: 53, protocol: 'UDP' }] },
    ['api > db TCP/5432', 'api > db UDP/53'],
    ['api > db UDP/5432', 'api > db TCP/53', 'api > db ICMP'],
  ),
];

const always: readonly PolicyCase[] = [
  one(
    'the own node reaches its pods, another node is policed',
    everyPod,
    ['n1 > db TCP/1', 'gateway of n1 > db TCP/1', 'n1 > api ICMP', 'n2 > web TCP/1', 'gateway of n2 > web TCP/1'],
    ['n2 > db TCP/1', 'gateway of n2 > db TCP/1', 'n1 > web TCP/1', 'external by n2 > db TCP/1'],
  ),
  one('a masqueraded sender is not the node', everyPod, [], ['masqueraded gateway of n1 > db TCP/1', 'masqueraded n1 > db TCP/1']),
  one(
    'to its own node a pod is policed',
    { ...db, policyTypes: ['Egress'] },
    ['n1 > db TCP/1'],
    ['db > n1 TCP/1', 'db > gateway of n1 UDP/53'],
  ),
  one('a pod reaches itself', { ...everyPod, policyTypes: ['Ingress', 'Egress'] }, ['db > db TCP/1', 'web > web ICMP'], ['db > api TCP/1']),
];

/** The recipes in the documentation of Kubernetes and of its users. */
const documented: readonly PolicyCase[] = [
  {
    name: 'the example of the documentation',
    policies: [
      policyObject('shop/test-network-policy', {
        ...db,
        policyTypes: ['Ingress', 'Egress'],
        ingress: [
          {
            from: [
              { ipBlock: { cidr: '203.0.0.0/8', except: ['203.1.0.0/16'] } },
              { namespaceSelector: { matchLabels: { team: 'sre' } } },
              { podSelector: { matchLabels: { tier: 'front' } } },
            ],
            ports: [{ protocol: 'TCP', port: 6379 }],
          },
        ],
        egress: [{ to: [{ ipBlock: { cidr: '198.51.100.0/24' } }], ports: [{ protocol: 'TCP', port: 5978 }] }],
      }),
    ],
    allowed: ['203.0.113.9 > db TCP/6379', 'agent > db TCP/6379', 'web > db TCP/6379', 'db > 198.51.100.7 TCP/5978'],
    denied: ['203.1.0.9 > db TCP/6379', 'toy > db TCP/6379', 'web > db TCP/6380', 'db > 198.51.101.7 TCP/5978', 'db > api TCP/5978'],
  },
  one('allow all ingress', { ...everyPod, ingress: [{}] }, ['external > db TCP/1', 'toy > api ICMP'], []),
  one('allow all egress', { ...everyPod, policyTypes: ['Egress'], egress: [{}] }, ['db > external TCP/1', 'api > toy ICMP'], []),
  {
    name: 'deny all, but DNS and the own namespace',
    policies: [
      policyObject('shop/deny', { ...everyPod, policyTypes: ['Ingress', 'Egress'] }),
      policyObject('shop/own', { ...everyPod, ingress: [{ from: [{ podSelector: {} }] }], egress: [{ to: [{ podSelector: {} }] }] }),
      policyObject('shop/dns', {
        ...everyPod,
        policyTypes: ['Egress'],
        egress: [
          {
            to: [
              {
                namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'ops' } },
                podSelector: { matchLabels: { app: 'agent' } },
              },
            ],
            ports: [
              { protocol: 'UDP', port: 53 },
              { protocol: 'TCP', port: 53 },
            ],
          },
        ],
      }),
    ],
    allowed: ['api > db TCP/1', 'db > api ICMP', 'api > agent UDP/53', 'web > agent TCP/53'],
    denied: ['api > scraper UDP/53', 'api > agent UDP/54', 'agent > db TCP/1', 'toy > db TCP/1', 'db > external TCP/443'],
  },
];

export const policyCases: readonly PolicyCase[] = [...selectors, ...peers, ...blocks, ...ports, ...always, ...documented];
