import type {
  NamespaceObject,
  NetworkPolicyObject,
  NodeObject,
  PodObject,
  PolicyObjects,
} from '../../src/policy/verify/reference/objects.ts';

/** Two nodes, three namespaces and a handful of pods, for cases of policy. `n1` is the computing node. */

type Mutable<T> = { -readonly [K in keyof T]: T[K] };

export function nodeObject(
  name: string,
  podCIDRs: readonly string[],
  addresses: readonly string[],
  labels: Readonly<Record<string, string>> = {},
): NodeObject {
  return {
    metadata: { name, labels },
    spec: { podCIDRs },
    status: {
      addresses: [{ type: 'Hostname', address: name }, ...addresses.map((address) => ({ type: 'InternalIP', address }))],
    },
  };
}

export function namespaceObject(name: string, labels: Readonly<Record<string, string>> = {}, denied?: string): NamespaceObject {
  const annotations = denied === undefined ? {} : { annotations: { 'seine.dev/denied': denied } };
  return { metadata: { name, labels: { 'kubernetes.io/metadata.name': name, ...labels }, ...annotations } };
}

interface PodParts {
  readonly node?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly containers?: PodObject['spec']['containers'];
  readonly initContainers?: NonNullable<PodObject['spec']['initContainers']>;
  readonly hostNetwork?: boolean;
  readonly phase?: string;
  readonly createdAt?: string;
}

/** @param key `namespace/name` */
export function podObject(key: string, ips: readonly string[], parts: PodParts = {}): PodObject {
  const [namespace = '', name = ''] = key.split('/');
  const spec: Mutable<PodObject['spec']> = { nodeName: parts.node ?? 'n1', containers: parts.containers ?? [{}] };
  if (parts.initContainers) spec.initContainers = parts.initContainers;
  if (parts.hostNetwork) spec.hostNetwork = true;
  const created = parts.createdAt === undefined ? {} : { creationTimestamp: parts.createdAt };
  return {
    metadata: { namespace, name, labels: parts.labels ?? {}, ...created },
    spec,
    status: { phase: parts.phase ?? 'Running', podIPs: ips.map((ip) => ({ ip })) },
  };
}

/** @param key `namespace/name` */
export function policyObject(key: string, spec: NetworkPolicyObject['spec']): NetworkPolicyObject {
  const [namespace = '', name = ''] = key.split('/');
  return { metadata: { namespace, name }, spec };
}

const http = { ports: [{ name: 'http', containerPort: 8080 }] };

export const exampleCluster: Omit<PolicyObjects, 'networkPolicies'> = {
  nodes: [
    nodeObject('n1', ['10.10.0.0/22', 'fd00:10::/64'], ['192.168.77.1', 'fd00:77::1'], { zone: 'a' }),
    nodeObject('n2', ['10.10.4.0/22', 'fd00:10:0:1::/64'], ['192.168.77.2', 'fd00:77::2'], { zone: 'b' }),
  ],
  namespaces: [
    namespaceObject('shop', { env: 'prod' }),
    namespaceObject('ops', { env: 'prod', team: 'sre' }),
    namespaceObject('play', { env: 'dev' }),
  ],
  pods: [
    podObject('shop/db', ['10.10.0.5', 'fd00:10::5'], {
      labels: { app: 'db' },
      containers: [{ ports: [{ name: 'sql', containerPort: 5432 }] }, http],
      initContainers: [
        { restartPolicy: 'Always', ports: [{ name: 'metrics', containerPort: 9100 }] },
        { ports: [{ name: 'once', containerPort: 7000 }] },
      ],
    }),
    podObject('shop/api', ['10.10.0.6', 'fd00:10::6'], { labels: { app: 'api', tier: 'front' }, containers: [http] }),
    podObject('shop/web', ['10.10.4.7', 'fd00:10:0:1::7'], {
      node: 'n2',
      labels: { app: 'web', tier: 'front' },
      containers: [{ ports: [{ name: 'http', containerPort: 8081 }] }],
    }),
    podObject('ops/agent', ['10.10.0.8', 'fd00:10::8'], { labels: { app: 'agent' } }),
    podObject('ops/scraper', ['10.10.4.9', 'fd00:10:0:1::9'], { node: 'n2', labels: { app: 'scraper' } }),
    podObject('play/toy', ['10.10.4.10', 'fd00:10:0:1::a'], {
      node: 'n2',
      labels: { app: 'api' },
      containers: [{ ports: [{ name: 'http', containerPort: 53, protocol: 'UDP' }] }],
    }),
    podObject('play/done', ['10.10.0.11', 'fd00:10::b'], { labels: { app: 'api' }, phase: 'Succeeded' }),
    podObject('ops/host', ['192.168.77.2', 'fd00:77::2'], { node: 'n2', labels: { app: 'agent' }, hostNetwork: true }),
    podObject('ops/kubelet', ['192.168.77.1', 'fd00:77::1'], { labels: { app: 'agent' }, hostNetwork: true }),
  ],
};

/** Addresses of the scene by short names, for both families; others are written out. */
export const exampleAddresses: Readonly<Record<string, readonly [string, string]>> = {
  db: ['10.10.0.5', 'fd00:10::5'],
  api: ['10.10.0.6', 'fd00:10::6'],
  web: ['10.10.4.7', 'fd00:10:0:1::7'],
  agent: ['10.10.0.8', 'fd00:10::8'],
  scraper: ['10.10.4.9', 'fd00:10:0:1::9'],
  toy: ['10.10.4.10', 'fd00:10:0:1::a'],
  done: ['10.10.0.11', 'fd00:10::b'],
  n1: ['192.168.77.1', 'fd00:77::1'],
  n2: ['192.168.77.2', 'fd00:77::2'],
  'gateway of n1': ['10.10.0.1', 'fd00:10::1'],
  'gateway of n2': ['10.10.4.1', 'fd00:10:0:1::1'],
  'external by n2': ['10.10.4.0', 'fd00:10:0:1::'],
  'unknown pod': ['10.10.6.77', 'fd00:10:0:1::77'],
  external: ['203.0.113.9', '2001:db8::9'],
};
