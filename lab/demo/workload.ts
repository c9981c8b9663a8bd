import { setTimeout as sleep } from 'node:timers/promises';
import { z } from 'zod';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type KubeApi, keyOf, nodeOf, type UnstructuredObject } from '../kube/kube-api.ts';
import type { LabPlan } from '../plan/plan.ts';

export const demoNamespace = 'demo';
/** Port of the demo's pods, TCP and UDP. */
export const podPort = 80;
export const hostPort = 8081;

const readyDeadlineMs = 180_000;
const pollMs = 50;
const accountDeadlineMs = 30_000;

export type NodePorts = Readonly<Record<'tcp' | 'udp', number>>;

/** An object to create and the collection it goes to. */
export interface DemoManifest {
  readonly collection: string;
  readonly object: Readonly<Record<string, unknown>>;
}

const inDemo = `/api/v1/namespaces/${demoNamespace}`;

/** Label of the Service that loses and gains endpoints while connections are opened to it. */
const rollingLabel = 'rolling';

/**
 * Objects of the demo. On each node: a pod of the Service `web`, a client, and a pod in the node's own network. A Service for `web` with
 * node ports, one for the first client alone, one without endpoints, and one for all pods that have their own network.
 */
export function manifests(plan: LabPlan): DemoManifest[] {
  return [
    { collection: '/api/v1/namespaces', object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: demoNamespace } } },
    ...plan.nodes.flatMap(({ name }, index) => [
      pod(plan, `web-${index + 1}`, name, { app: 'web', [rollingLabel]: 'yes' }),
      pod(plan, `client-${index + 1}`, name, { app: 'client', client: String(index + 1), [rollingLabel]: 'yes' }),
      podManifest({ ...inNamespace(plan, `host-${index + 1}`, name, { app: 'host' }), port: hostPort, more: { hostNetwork: true } }),
    ]),
    service('web', { app: 'web' }, plan, 'NodePort'),
    service('loop', { client: '1' }, plan),
    service('empty', { app: 'none' }, plan),
    service('rolling', { [rollingLabel]: 'yes' }, plan),
  ];
}

function pod(plan: LabPlan, name: string, node: string, labels: Readonly<Record<string, string>>): DemoManifest {
  return podManifest({ ...inNamespace(plan, name, node, labels), port: podPort });
}

function inNamespace(plan: LabPlan, name: string, node: string, labels: Readonly<Record<string, string>>): Omit<DemoPod, 'port'> {
  return { plan, namespace: demoNamespace, name, node, labels };
}

interface DemoPod {
  readonly plan?: Pick<LabPlan, 'kubernetes'>;
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly port: number;
  readonly more?: object;
}

/** A pod on a node that answers with its identity on a port. */
export function podManifest({ plan, namespace, name, node, labels, port, more = {} }: DemoPod): DemoManifest {
  const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), containerPort: port, protocol }));
  const spec = {
    nodeSelector: { 'kubernetes.io/hostname': node },
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'responder', image: 'responder', imagePullPolicy: 'IfNotPresent', ports, ...probeOf(plan, port) }],
    ...more,
  };
  const object = { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec };
  return { collection: `/api/v1/namespaces/${namespace}/pods`, object };
}

/** In a real kubelet a container runs before the lab answers in its pod; the lab's own kubelet waits for that. */
function probeOf(plan: Pick<LabPlan, 'kubernetes'> | undefined, port: number): object {
  return plan?.kubernetes === undefined ? {} : { readinessProbe: { tcpSocket: { port }, periodSeconds: 1 } };
}

function service(name: string, selector: Readonly<Record<string, string>>, plan: LabPlan, type = 'ClusterIP'): DemoManifest {
  const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), port: podPort, targetPort: podPort, protocol }));
  const families = {
    ipFamilyPolicy: plan.families.length > 1 ? 'RequireDualStack' : 'SingleStack',
    ipFamilies: plan.families.map((family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')),
  };
  const object = { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec: { type, selector, ports, ...families } };
  return { collection: `${inDemo}/services`, object };
}

/** Creates missing objects. */
export async function createAll(api: KubeApi, wanted: readonly DemoManifest[], signal: AbortSignal): Promise<void> {
  const deadline = performance.now() + accountDeadlineMs;
  for (const manifest of wanted)
    while ((await create(api, manifest, signal)) === 'later' && performance.now() < deadline) await sleep(pollMs);
}

/** Creates an object. A new namespace takes pods once a controller has created the account that they run as. */
async function create(api: KubeApi, { collection, object }: DemoManifest, signal: AbortSignal): Promise<'there' | 'later'> {
  try {
    await api.send({ method: 'POST', path: collection, body: object }, signal);
  } catch (error) {
    const status = error instanceof SeineError ? error.context['status'] : undefined;
    if (status === 403 && String(error).includes('serviceaccount')) return 'later';
    if (status !== 409) throw error; // 409: exists already
  }
  return 'there';
}

/**
 * Waits until all pods of a namespace are ready.
 *
 * @param count their number
 * @throws SeineError `UNAVAILABLE` naming those that are not, and the reasons
 */
export async function podsReady(api: KubeApi, count: number, signal: AbortSignal, namespace = demoNamespace): Promise<void> {
  const pods = new Map<string, UnstructuredObject>();
  const done = new AbortController();
  const following = api.follow(
    `/api/v1/namespaces/${namespace}/pods`,
    pods,
    () => {},
    () => {},
    AbortSignal.any([signal, done.signal]),
  );
  const deadline = performance.now() + readyDeadlineMs;
  try {
    while (pods.size < count || ![...pods.values()].every(isReady)) {
      signal.throwIfAborted();
      if (performance.now() > deadline) throw new SeineError('UNAVAILABLE', `not ready: ${unreadyReasons([...pods.values()]).join('; ')}`);
      await sleep(pollMs);
    }
  } finally {
    done.abort();
    await following;
  }
}

const allocated = z.looseObject({
  spec: z.looseObject({
    clusterIPs: z.array(z.string()),
    ports: z.array(z.looseObject({ protocol: z.string(), nodePort: z.int().optional() })),
  }),
});

/** Addresses and ports that the API server allocated to a Service. @throws SeineError `PROTOCOL` if it has no cluster addresses */
async function allocatedTo(api: KubeApi, name: string, signal: AbortSignal, namespace = demoNamespace) {
  const { data } = allocated.safeParse(await api.send({ method: 'GET', path: `/api/v1/namespaces/${namespace}/services/${name}` }, signal));
  if (data === undefined) throw new SeineError('PROTOCOL', `Service ${name} has no cluster addresses`);
  return data.spec;
}

/** Cluster addresses of a Service, in the order of its families. */
export async function clusterIps(api: KubeApi, name: string, signal: AbortSignal, namespace = demoNamespace): Promise<readonly string[]> {
  return (await allocatedTo(api, name, signal, namespace)).clusterIPs;
}

/** Node ports of a Service by protocol; 0 where it has none. */
export async function nodePorts(api: KubeApi, name: string, signal: AbortSignal): Promise<NodePorts> {
  const { ports } = await allocatedTo(api, name, signal);
  const of = (protocol: string) => ports.find((port) => port.protocol === protocol)?.nodePort ?? 0;
  return { tcp: of('TCP'), udp: of('UDP') };
}

/** Makes a pod an endpoint of the rolling Service, or removes it. */
export async function setRolling(api: KubeApi, pod: string, is: boolean, signal: AbortSignal): Promise<void> {
  const body = { metadata: { labels: { [rollingLabel]: is ? 'yes' : null } } };
  await api.send({ method: 'PATCH', path: `${inDemo}/pods/${pod}`, body, contentType: 'application/merge-patch+json' }, signal);
}

interface ReportedCondition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

function conditionsOf({ status }: UnstructuredObject): readonly ReportedCondition[] {
  const conditions = status && typeof status === 'object' && 'conditions' in status ? status.conditions : [];
  return Array.isArray(conditions) ? conditions : [];
}

function isReady(object: UnstructuredObject): boolean {
  return conditionsOf(object).some(({ type, status }) => type === 'Ready' && status === 'True');
}

function unreadyReasons(pods: readonly UnstructuredObject[]): string[] {
  if (pods.length === 0) return ['no pod exists'];
  return pods
    .filter((object) => !isReady(object))
    .map((object) => {
      const message = conditionsOf(object).find((condition) => condition.message !== undefined && condition.message !== '')?.message;
      const said = message ?? (nodeOf(object) === undefined ? 'bound to no node' : undefined);
      return `${keyOf(object.metadata)}${said === undefined ? '' : ` (${said})`}`;
    });
}
