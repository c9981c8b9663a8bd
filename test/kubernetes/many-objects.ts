import type { KubeApi } from '../../lab/kube/kube-api.ts';

const atOnce = 32;

/** A cluster of objects alone: nodes without a kubelet, and pods that run nowhere. */
export interface ManyObjects {
  readonly nodes: number;
  readonly podsOfNode: number;
  readonly namespaces: number;
}

/** Namespace of a pod; pods are counted from 0, over all nodes. */
const namespaceOf = (pod: number, { namespaces }: ManyObjects) => `many-${pod % namespaces}`;
const nodeName = (node: number) => `many-${node}`;
/** Networks of 1,022 addresses each, besides those that the cluster gives its own nodes. */
const podNetwork = (node: number) => `10.${128 + (node >> 6)}.${(node & 63) << 2}.0/22`;
const podAddress = (node: number, pod: number) => `10.${128 + (node >> 6)}.${(node & 63) << 2}.${pod + 2}`;
const nodeAddress = (node: number) => `172.20.${node >> 8}.${node & 255}`;

/** Namespaces first: pods are accepted once the controllers have created the account that each has. */
export async function makeNamespaces(api: KubeApi, many: ManyObjects, signal: AbortSignal): Promise<void> {
  await each(many.namespaces, async (at) => {
    const metadata = { name: `many-${at}`, labels: { team: `team-${at % 10}` } };
    await api.send({ method: 'POST', path: '/api/v1/namespaces', body: { apiVersion: 'v1', kind: 'Namespace', metadata } }, signal);
  });
}

export async function makeNodesAndPods(api: KubeApi, many: ManyObjects, signal: AbortSignal): Promise<void> {
  await each(many.nodes, (at) => makeNode(api, at, signal));
  await each(many.nodes * many.podsOfNode, (at) => makePod(api, at, many, signal));
}

async function makeNode(api: KubeApi, at: number, signal: AbortSignal): Promise<void> {
  const name = nodeName(at);
  const spec = { podCIDR: podNetwork(at), podCIDRs: [podNetwork(at)] };
  await api.send({ method: 'POST', path: '/api/v1/nodes', body: { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec } }, signal);
  const status = { addresses: [{ type: 'InternalIP', address: nodeAddress(at) }] };
  await patchStatus(api, `/api/v1/nodes/${name}`, status, signal);
}

async function makePod(api: KubeApi, at: number, many: ManyObjects, signal: AbortSignal): Promise<void> {
  const node = Math.floor(at / many.podsOfNode);
  const namespace = namespaceOf(at, many);
  const name = `pod-${at}`;
  const labels = { app: `app-${at % 200}`, 'pod-template-hash': `${at % 1_000}` };
  const spec = {
    nodeName: nodeName(node),
    automountServiceAccountToken: false,
    tolerations: [{ operator: 'Exists' }],
    containers: [{ name: 'main', image: 'none.invalid/none', ports: [{ name: 'http', containerPort: 8080 }] }],
  };
  const path = `/api/v1/namespaces/${namespace}/pods`;
  await api.send({ method: 'POST', path, body: { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec } }, signal);
  const podIP = podAddress(node, at % many.podsOfNode);
  await patchStatus(api, `${path}/${name}`, { phase: 'Running', podIP, podIPs: [{ ip: podIP }] }, signal);
}

async function patchStatus(api: KubeApi, path: string, status: object, signal: AbortSignal): Promise<void> {
  await api.send({ method: 'PATCH', path: `${path}/status`, body: { status }, contentType: 'application/merge-patch+json' }, signal);
}

/** Calls `work` for each number below `count`, some concurrently. */
async function each(count: number, work: (at: number) => Promise<void>): Promise<void> {
  let next = 0;
  const worker = async () => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
}
