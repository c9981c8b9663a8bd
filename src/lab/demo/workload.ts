import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../errors/seine-error.ts';
import { type KubeApi, type KubeObject, keyOf, nodeOf } from '../kube-api.ts';
import type { LabPlan } from '../plan.ts';

export const demoNamespace = 'demo';
/** What the pods of the demo listen on, TCP and UDP. */
export const podPort = 80;
export const hostPort = 8081;

const readyDeadlineMs = 180_000;
const pollMs = 50;

/** An object to create and the collection it goes to. */
export interface Manifest {
  readonly collection: string;
  readonly object: Readonly<Record<string, unknown>>;
}

const inDemo = `/api/v1/namespaces/${demoNamespace}`;

/**
 * On each node a pod of the Service `web`, a client, and one in the node's own network; a Service for `web`, one for the
 * first client alone, and one for nobody.
 */
export function manifests(plan: LabPlan): Manifest[] {
  return [
    { collection: '/api/v1/namespaces', object: { apiVersion: 'v1', kind: 'Namespace', metadata: { name: demoNamespace } } },
    ...plan.nodes.flatMap(({ name }, index) => [
      pod(`web-${index + 1}`, name, { app: 'web' }, podPort),
      pod(`client-${index + 1}`, name, { app: 'client', client: String(index + 1) }, podPort),
      pod(`host-${index + 1}`, name, { app: 'host' }, hostPort, { hostNetwork: true }),
    ]),
    service('web', { app: 'web' }, plan),
    service('loop', { client: '1' }, plan),
    service('empty', { app: 'nobody' }, plan),
  ];
}

function pod(name: string, node: string, labels: Readonly<Record<string, string>>, port: number, more: object = {}): Manifest {
  const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), containerPort: port, protocol }));
  const spec = {
    nodeSelector: { 'kubernetes.io/hostname': node },
    terminationGracePeriodSeconds: 1,
    containers: [{ name: 'responder', image: 'responder', ports }],
    ...more,
  };
  return { collection: `${inDemo}/pods`, object: { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, spec } };
}

function service(name: string, selector: Readonly<Record<string, string>>, plan: LabPlan): Manifest {
  const ports = ['TCP', 'UDP'].map((protocol) => ({ name: protocol.toLowerCase(), port: podPort, targetPort: podPort, protocol }));
  const families = {
    ipFamilyPolicy: plan.families.length > 1 ? 'RequireDualStack' : 'SingleStack',
    ipFamilies: plan.families.map((family) => (family === 'ipv4' ? 'IPv4' : 'IPv6')),
  };
  const object = { apiVersion: 'v1', kind: 'Service', metadata: { name }, spec: { selector, ports, ...families } };
  return { collection: `${inDemo}/services`, object };
}

/** Creates what is not there. */
export async function createAll(api: KubeApi, wanted: readonly Manifest[], signal: AbortSignal): Promise<void> {
  for (const { collection, object } of wanted) {
    try {
      await api.send({ method: 'POST', path: collection, body: object }, signal);
    } catch (error) {
      // 409: there already.
      if (!(error instanceof SeineError && error.context['status'] === 409)) throw error;
    }
  }
}

/**
 * Waits until all pods of the demo are ready.
 *
 * @throws SeineError `UNAVAILABLE` naming those that are not, and why
 */
export async function podsReady(api: KubeApi, count: number, signal: AbortSignal): Promise<void> {
  const pods = new Map<string, KubeObject>();
  const done = new AbortController();
  const following = api.follow(
    `${inDemo}/pods`,
    pods,
    () => {},
    () => {},
    AbortSignal.any([signal, done.signal]),
  );
  const deadline = performance.now() + readyDeadlineMs;
  try {
    while (pods.size < count || ![...pods.values()].every(isReady)) {
      signal.throwIfAborted();
      if (performance.now() > deadline) throw new SeineError('UNAVAILABLE', `not ready: ${whyNot([...pods.values()]).join('; ')}`);
      await sleep(pollMs);
    }
  } finally {
    done.abort();
    await following;
  }
}

/** Cluster addresses of a Service, in the order of its families. */
export async function clusterIps(api: KubeApi, name: string, signal: AbortSignal): Promise<readonly string[]> {
  const found = await api.send({ method: 'GET', path: `${inDemo}/services/${name}` }, signal);
  const spec = found && typeof found === 'object' && 'spec' in found ? found.spec : undefined;
  const ips = spec && typeof spec === 'object' && 'clusterIPs' in spec ? spec.clusterIPs : undefined;
  if (!Array.isArray(ips)) throw new SeineError('PROTOCOL', `Service ${name} has no cluster addresses`);
  return ips.map(String);
}

interface Condition {
  readonly type: string;
  readonly status: string;
  readonly message?: string;
}

function conditionsOf({ status }: KubeObject): readonly Condition[] {
  const conditions = status && typeof status === 'object' && 'conditions' in status ? status.conditions : [];
  return Array.isArray(conditions) ? conditions : [];
}

function isReady(object: KubeObject): boolean {
  return conditionsOf(object).some(({ type, status }) => type === 'Ready' && status === 'True');
}

function whyNot(pods: readonly KubeObject[]): string[] {
  if (pods.length === 0) return ['no pod is there'];
  return pods
    .filter((object) => !isReady(object))
    .map((object) => {
      const message = conditionsOf(object).find((condition) => condition.message !== undefined && condition.message !== '')?.message;
      const said = message ?? (nodeOf(object) === undefined ? 'bound to no node' : undefined);
      return `${keyOf(object.metadata)}${said === undefined ? '' : ` (${said})`}`;
    });
}
