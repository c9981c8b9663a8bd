import { type FakeAgent, type FakeFleetOptions, fakeStatus } from '../support/fake-fleet.ts';

/** Names that would be markup, code or other text if the page did not write them as text nodes. */
export const hostile = {
  markup: '<img src=x onerror="window.hostile=1">',
  script: '</script><script>window.hostile=1</script>',
  direction: 'web\u202e0-bw',
};

const problem = (message: string) => ({
  kind: 'part.refused',
  about: 'bridge',
  message,
  ageSeconds: 4,
  remedy: 'run seinectl diff on this node',
});
const drop = {
  ...{
    table: 'ingressVerdict',
    name: 'policy.ingress',
    message: 'an ingress policy isolates the receiver, and no rule allows the connection',
  },
  ...{ cause: 'the policies as they are written', remedy: 'seinectl policy explain FROM TO PORT' },
};
const drops = {
  items: [
    { ...drop, packets: '1204' },
    { ...drop, name: hostile.markup, packets: '9007199254740993' },
  ],
};

const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 40_000, destination: '10.0.1.5', destinationPort: 5_432, ttl: 64 };
const hop = (table: string, text: string) => ({ table, text, flow: `table=${table},ip actions=drop`, owner: 'pod/shop/web-0' });

function trace(node: string, outcome: object, hops: readonly object[]): string {
  const path = { endpoints: [], hops, bridge: outcome, desired: outcome };
  const ends = { from: 'shop/web-0', to: 'shop/db-0', connection: 'new', family: 'ipv4', packet, moreEndpoints: 0, milliseconds: 12 };
  return JSON.stringify({ node, traces: [{ ...ends, paths: [path] }] });
}

const pod = (name: string, app: string, ip: string, nodeName: string) => ({
  metadata: { namespace: 'shop', name, labels: { app } },
  spec: { nodeName, containers: [{ name: 'c' }] },
  status: { phase: 'Running', podIPs: [{ ip }] },
});

const node = (name: string, at: number) => ({
  metadata: { name, labels: { 'kubernetes.io/os': 'linux' } },
  spec: { podCIDRs: [`10.0.${at}.0/24`] },
  status: { addresses: [{ type: 'InternalIP', address: `192.168.77.${at + 1}` }] },
});

const policies = [
  { metadata: { namespace: 'shop', name: 'default-deny' }, spec: { podSelector: {}, policyTypes: ['Ingress'] } },
  {
    metadata: { namespace: 'shop', name: 'db-clients' },
    spec: {
      podSelector: { matchLabels: { app: 'db' } },
      policyTypes: ['Ingress'],
      ingress: [{ from: [{ podSelector: { matchLabels: { app: 'api' } } }], ports: [{ protocol: 'TCP', port: 5_432 }] }],
    },
  },
];

const explained = {
  ...{ name: 'shop/web-0', state: 'wrong' },
  lines: ['shop/web-0 runs on node-1', '  addresses 10.0.0.5', `! its flow is missing: ${hostile.script}`],
};

const agents: readonly FakeAgent[] = [
  { node: 'node-1', reply: { answer: fakeStatus('node-1', { problems: [problem(`entries are refused: ${hostile.markup}`)] as never }) } },
  { node: 'node-2', reply: { answer: fakeStatus('node-2') } },
  { node: 'node-3', reply: 'exit' },
  { node: 'node-4', absent: true, reply: 'exit' },
];

/** A cluster with problems, drops, an agent that does not answer, policies, and hostile names. */
export const shop: FakeFleetOptions = {
  agents,
  objects: {
    '/api/v1/pods': [
      pod('web-0', 'web', '10.0.0.5', 'node-1'),
      pod('db-0', 'db', '10.0.1.5', 'node-2'),
      pod('api-0', 'api', '10.0.1.6', 'node-2'),
      pod(hostile.markup, 'x', '10.0.1.7', 'node-2'),
    ],
    '/api/v1/namespaces': [{ metadata: { name: 'shop', labels: {} } }, { metadata: { name: hostile.direction, labels: {} } }],
    '/api/v1/nodes': agents.map((each, at) => node(each.node, at)),
    '/apis/networking.k8s.io/v1/networkpolicies': policies,
    '/api/v1/services': [{ metadata: { namespace: 'shop', name: 'db' }, spec: {} }],
  },
  single: { '/api/v1/namespaces/shop/pods/web-0': { metadata: { name: 'web-0' }, spec: { nodeName: 'node-1' } } },
  paths: {
    '/v1/drops': JSON.stringify(drops),
    '/v1/explain/pod': JSON.stringify(explained),
    '/v1/policy/pod': JSON.stringify({
      ingress: { state: 'isolated', policies: ['shop/default-deny'] },
      egress: { state: 'free', policies: [] },
    }),
  },
  pathsOfNode: {
    'node-1 /v1/trace': trace('node-1', { what: 'tunnel', to: 'node-2', packet }, [
      hop('classify', 'shop/web-0'),
      hop('output', hostile.markup),
    ]),
    'node-2 /v1/trace': trace('node-2', { what: 'dropped', to: 'policy.ingress', packet, drop: { ...drop, packets: '1204' } }, [
      hop('classify', 'tunnel from node-1'),
      hop('ingressVerdict', 'no rule allows the connection'),
    ]),
  },
};
