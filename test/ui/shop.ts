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

/** Packet of the trace. */
export const packet = { protocol: 'TCP', source: '10.0.0.5', sourcePort: 40_000, destination: '10.0.1.5', destinationPort: 5_432, ttl: 64 };
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

const event = (time: string, kind: string, subjects: readonly string[], text: string, data: object = {}): string =>
  JSON.stringify({ time: `2026-11-29T14:${time}Z`, kind, subjects, text, data });
const received = event('02:10.118', 'object.added', ['pod/shop/web-0'], 'received Pod shop/web-0, version 5120', { name: 'shop/web-0' });

/** Events of the two agents that answer: one object that both received, failures, and hostile names. */
const timelines = {
  'node-1 /v1/timeline': [
    received,
    event('02:10.204', 'pod.flows', ['pod/shop/web-0'], 'OVS acknowledged the flows of the pod after 8.2 ms'),
    event('02:10.215', 'cni.add', ['pod/shop/web-0'], 'ADD answered after 31 ms: ipam 2 ms, network 24 ms'),
    event(
      '05:41.720',
      'policy.isolated',
      ['pod/shop/web-0', 'policy/shop/default-deny'],
      'policies: ingress by shop/default-deny, egress by no policy',
    ),
    event('05:44.003', 'denied.burst', ['pod/shop/web-0', `pod/shop/${hostile.markup}`], `denied ingress from ${hostile.script} 8080/TCP`),
    event('06:12.500', 'drift.found', [], `bridge: another program changed 3 entries ${hostile.direction}`),
    event('06:12.541', 'drift.repaired', [], 'bridge: foreign change repaired after 41 ms'),
  ].join('\n'),
  'node-2 /v1/timeline': [received, event('07:01.000', hostile.markup, ['x/y'], hostile.markup)].join('\n'),
};

const summary = (source: string, destination: string, connections: number, more: object = {}) => ({
  ...{ source, destination, protocol: 'TCP', port: 5_432, verdict: 'allowed', connections, reporter: 'both' },
  ...more,
});
const noLosses = { meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0 };

/** Sums of one agent, with each verdict, a loss, and hostile names. */
const traffic = JSON.stringify({
  state: { node: 'node-1', enabled: true, sources: ['opened'], losses: { ...noLosses, meter: 412 }, skipped: 0 },
  since: '2026-11-29T14:00:00Z',
  items: [
    summary('shop/api', 'shop/db', 1_204, { service: 'shop/db', rule: 'shop/db-clients spec.ingress[0]', bytes: '9231234' }),
    summary('shop/web', 'shop/db', 12, { verdict: 'denied', rule: 'shop/default-deny' }),
    summary('outside', 'shop/web', 8_400, { port: 8_080, bytes: '81234567' }),
    summary('shop/web', 'shop/api', 4_100, { port: 8_080 }),
    summary('ops/prometheus', 'shop/api', 40, { port: 9_090 }),
    summary('ops/prometheus', 'shop/api', 2, { port: 22, verdict: 'refused', rule: 'shop/default-deny' }),
    summary('node node-1', 'shop/web', 30, { port: 8_080, verdict: 'would-deny', rule: 'shop/default-deny' }),
    summary(`shop/${hostile.markup}`, hostile.script, 3, { rule: hostile.markup }),
    summary(`${hostile.direction}/x`, 'shop/db', 1, { verdict: 'denied' }),
  ],
  others: 7,
});

const flow = {
  ...{ node: 'node-1', number: 1, time: '2026-11-29T14:02:12.010Z', event: 'opened', verdict: 'allowed', reporter: 'source' },
  ...{ family: 'ipv4', protocol: 'TCP' },
  source: { address: '10.0.1.6', port: 40_000, kind: 'pod', namespace: 'shop', name: 'api-0', workload: 'api' },
  destination: { address: '10.0.1.5', port: 5_432, kind: 'pod', namespace: 'shop', name: 'db-0', workload: 'db' },
  ingress: { verdict: 'allowed', by: ['shop/db-clients spec.ingress[0]'] },
};
const denied = {
  ...{ ...flow, number: 2, time: '2026-11-29T14:03:00.000Z', event: 'denied', verdict: 'denied', reporter: 'destination' },
  source: { ...flow.source, address: '10.0.0.5', name: 'web-0', workload: 'web' },
  ingress: { verdict: 'denied', by: ['shop/default-deny', hostile.markup] },
  ...{ reason: `denied: ${hostile.script}`, repeated: 11 },
};
const closed = {
  ...{ ...flow, number: 3, time: '2026-11-29T14:02:13.500Z', event: 'closed', reporter: 'both' },
  ...{ startedAt: '2026-11-29T14:02:12.010Z', endedAt: '2026-11-29T14:02:13.500Z', bytes: { out: '2100', in: '9000' } },
};
const logState = JSON.parse(traffic) as { readonly state: object };

/** Records of one agent, with a denial and hostile names. */
const flowLog = [
  { state: { ...logState.state, completeFrom: '2026-11-29T13:00:00.000Z' } },
  ...[flow, closed, denied].map((each) => ({ flow: each })),
]
  .map((line) => JSON.stringify(line))
  .join('\n');

/** Sums of an agent whose flow log is off. */
export const trafficOff = JSON.stringify({
  state: { node: 'node-1', enabled: false, sources: [], losses: noLosses, skipped: 0 },
  since: '2026-11-29T14:00:00Z',
  items: [],
  others: 0,
});

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
    '/v1/policy/counters': '{"items":[]}',
    '/v1/explain/pod': JSON.stringify(explained),
    '/v1/policy/pod': JSON.stringify({
      ingress: { state: 'isolated', policies: ['shop/default-deny'] },
      egress: { state: 'free', policies: [] },
    }),
  },
  pathsOfNode: {
    ...timelines,
    'node-1 /v1/flow-log/summary': traffic,
    'node-2 /v1/flow-log/summary': trafficOff,
    'node-1 /v1/flow-log': flowLog,
    'node-2 /v1/flow-log': JSON.stringify({ state: (JSON.parse(trafficOff) as { readonly state: object }).state }),
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
