import { LoopTurns } from '../../../../src/base/async/loop-turns.ts';
import { SeineError } from '../../../../src/base/errors/seine-error.ts';
import { apiLimits, readJson } from '../../../../src/kubernetes/client/json/json-stream.ts';
import { parseListEnvelope, parseWatchEvent } from '../../../../src/kubernetes/client/reflector/watch-event.ts';
import { identityIn, identityOf } from '../../../../src/kubernetes/client/resource.ts';
import { endpointSlices } from '../../../../src/kubernetes/resources/endpoint-slice.ts';
import { liveSettings } from '../../../../src/kubernetes/resources/live-settings.ts';
import { namespaces } from '../../../../src/kubernetes/resources/namespace.ts';
import { networkPolicies } from '../../../../src/kubernetes/resources/network-policy.ts';
import { nodes } from '../../../../src/kubernetes/resources/node.ts';
import { pods } from '../../../../src/kubernetes/resources/pod.ts';
import { policyPods } from '../../../../src/kubernetes/resources/policy-pod.ts';
import { services } from '../../../../src/kubernetes/resources/service.ts';
import { isRead, type Target } from '../target.ts';

const resources = [services, endpointSlices, pods, policyPods, nodes, namespaces, networkPolicies, liveSettings];
const metadata = (name: string) => ({
  name,
  namespace: 'shop',
  uid: '5d0b6f2e-0000-4000-8000-000000000001',
  resourceVersion: '41',
  labels: { app: name, 'kubernetes.io/service-name': 'web', 'kubernetes.io/metadata.name': name },
  annotations: { 'kubernetes.io/ingress-bandwidth': '10M', 'seine.dev/log': 'denied' },
});
const rule = {
  from: [
    {
      podSelector: { matchLabels: { app: 'web' } },
      namespaceSelector: { matchExpressions: [{ key: 'team', operator: 'In', values: ['a'] }] },
    },
    { ipBlock: { cidr: '10.0.0.0/8', except: ['10.1.0.0/16'] } },
  ],
  ports: [
    { protocol: 'TCP', port: 80, endPort: 90 },
    { protocol: 'SCTP', port: 'metrics' },
  ],
};

const objects = [
  {
    metadata: metadata('web'),
    spec: {
      type: 'LoadBalancer',
      clusterIP: '10.96.0.9',
      clusterIPs: ['10.96.0.9', 'fd00:96::9'],
      ipFamilies: ['IPv4', 'IPv6'],
      externalIPs: ['192.0.2.7'],
      loadBalancerSourceRanges: ['198.51.100.0/24'],
      externalTrafficPolicy: 'Local',
      internalTrafficPolicy: 'Cluster',
      trafficDistribution: 'PreferClose',
      healthCheckNodePort: 30_999,
      sessionAffinity: 'ClientIP',
      sessionAffinityConfig: { clientIP: { timeoutSeconds: 60 } },
      publishNotReadyAddresses: true,
      ports: [{ name: 'http', protocol: 'TCP', port: 80, targetPort: 'http', nodePort: 30_080 }],
    },
    status: { loadBalancer: { ingress: [{ ip: '203.0.113.9', ipMode: 'VIP' }] } },
  },
  {
    metadata: metadata('web-abcde'),
    addressType: 'IPv4',
    ports: [{ name: 'http', protocol: 'TCP', port: 8080 }],
    endpoints: [
      {
        addresses: ['10.244.0.5'],
        conditions: { ready: true, serving: true, terminating: false },
        nodeName: 'node-1',
        zone: 'a',
        hints: { forZones: [{ name: 'a' }], forNodes: [{ name: 'node-1' }] },
      },
    ],
  },
  {
    metadata: metadata('web-0'),
    spec: {
      nodeName: 'node-1',
      hostNetwork: false,
      containers: [{ ports: [{ name: 'http', containerPort: 80, protocol: 'TCP', hostPort: 8080 }] }],
    },
    status: {
      phase: 'Running',
      podIP: '10.244.0.5',
      podIPs: [{ ip: '10.244.0.5' }, { ip: 'fd00:244::5' }],
      hostIPs: [{ ip: '192.0.2.1' }],
    },
  },
  {
    metadata: metadata('node-1'),
    spec: { podCIDR: '10.244.0.0/24', podCIDRs: ['10.244.0.0/24', 'fd00:244::/64'] },
    status: {
      addresses: [
        { type: 'InternalIP', address: '192.0.2.1' },
        { type: 'Hostname', address: 'node-1' },
      ],
    },
  },
  {
    metadata: metadata('only-web'),
    spec: {
      podSelector: { matchExpressions: [{ key: 'app', operator: 'NotIn', values: ['x'] }] },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [rule],
      egress: [{ to: rule.from, ports: rule.ports }],
    },
  },
  { metadata: metadata('seine-live'), data: { policyMode: 'audit', logLevel: 'debug' } },
];

const events = [
  ...objects.map((object, at) => ({ type: ['ADDED', 'MODIFIED', 'DELETED'][at % 3], object })),
  { type: 'BOOKMARK', object: { metadata: { resourceVersion: '42', annotations: { 'k8s.io/initial-events-end': 'true' } } } },
  {
    type: 'ERROR',
    object: {
      kind: 'Status',
      code: 410,
      reason: 'Expired',
      message: 'too old',
      details: { causes: [{ reason: 'ResourceVersionTooLarge' }] },
    },
  },
];

function isRefusal(thrown: unknown): boolean {
  return thrown instanceof SeineError && (thrown.code === 'PROTOCOL' || thrown.code === 'INVALID_INPUT');
}

/** Read as every known kind: the kind that the server claims is not trusted. */
async function takeObject(object: unknown): Promise<void> {
  await isRead(() => {
    const { key } = identityOf(object);
    const quick = identityIn(object);
    if (quick !== undefined && quick.key !== key) throw new Error(`two names: ${quick.key} and ${key}`);
  }, isRefusal);
  for (const resource of resources) await isRead(() => resource.project(object), isRefusal);
}

async function takeStream(shape: 'values' | 'list', bytes: Buffer): Promise<boolean> {
  const values: unknown[] = [];
  const sink = {
    limits: apiLimits,
    turns: new LoopTurns(1_000),
    onValue: (value: unknown) => void values.push(value),
    onUnreadable: () => undefined,
  };
  const middle = bytes.length >> 1;
  async function* chunks(): AsyncGenerator<Uint8Array> {
    yield bytes.subarray(0, middle);
    yield bytes.subarray(middle);
  }
  const whole = await isRead(async () => {
    const envelope = await readJson(shape, chunks(), sink);
    if (shape === 'list') parseListEnvelope(envelope);
  }, isRefusal);
  for (const value of values) {
    if (shape === 'list') await takeObject(value);
    else
      await isRead(async () => {
        const event = parseWatchEvent(value);
        if ('object' in event) await takeObject(event.object);
      }, isRefusal);
  }
  return whole && values.length > 0;
}

export const apiTarget: Target = {
  name: 'api',
  what: 'what an API server answers: lists, events of watches, and objects of every kind in them',
  seeds: () => [
    ...events.map((event) => Buffer.from(`${JSON.stringify(event)}\n`)),
    Buffer.from(JSON.stringify({ kind: 'List', items: objects, metadata: { resourceVersion: '42', continue: 'x' } })),
  ],
  read: async (bytes) => {
    const [asEvents, asList] = [await takeStream('values', bytes), await takeStream('list', bytes)];
    return asEvents || asList;
  },
};
