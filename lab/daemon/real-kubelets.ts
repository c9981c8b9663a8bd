import { join } from 'node:path';
import { z } from 'zod';
import { pause } from '../../src/base/async/pause.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Log } from '../../src/base/log/log.ts';
import { type KubeApi, keyOf, nodeOf, type UnstructuredObject } from '../kube/kube-api.ts';
import { Container } from '../kubelet/container.ts';
import { type PodSpec, parsePod } from '../kubelet/pod-spec.ts';
import { agentReadiness } from '../node/agent.ts';
import { nodePaths } from '../plan/names.ts';
import type { KubernetesPrograms, LabPlan, NodePlan } from '../plan/plan.ts';
import { attachedPods } from '../real-kubernetes/attachments.ts';
import { clusterDnsObjects } from '../real-kubernetes/cluster-dns.ts';
import { type ControlPlane, routeToPods } from '../real-kubernetes/control-plane.ts';
import { type NodeProgram, NodeRuntime } from '../real-kubernetes/node-runtime.ts';
import type { PodRunners } from './pod-runners.ts';
import type { PodStatusLine } from './status.ts';

const pollMs = 200;
/** Interval of the check for recreated nodes (ms). */
const watchMs = 2_000;
const network = 'seine';
/** The image of a pod in which the lab's responder answers; its container only waits. */
const responderImage = 'responder';

const knownNode = z.looseObject({
  metadata: z.looseObject({ name: z.string() }),
  spec: z.looseObject({ podCIDRs: z.array(z.string()).min(1) }),
  status: z.looseObject({ conditions: z.array(z.looseObject({ type: z.string(), status: z.string() })) }),
});

interface RealKubeletsOptions {
  readonly plan: LabPlan;
  readonly programs: KubernetesPrograms;
  readonly controlPlane: ControlPlane;
  readonly log: Log;
}

/** Real kubelets with containerd, one pair per node. This process knows of their pods what the runtime recorded. */
export class RealKubelets implements PodRunners {
  readonly #options: RealKubeletsOptions;
  readonly #runtimes = new Map<string, NodeRuntime>();
  readonly #pods = new Map<string, UnstructuredObject>();
  readonly #responders = new Map<string, Container>();
  readonly #ready = new Set<string>();
  readonly #tasks: Promise<void>[] = [];

  constructor(options: RealKubeletsOptions) {
    this.#options = options;
  }

  get running(): readonly PodStatusLine[] {
    return this.#options.plan.nodes.flatMap((node) => [...this.#attachedOn(node), ...this.#hostPodsOn(node)]);
  }

  isReady(node: string): boolean {
    return this.#ready.has(node);
  }

  async check(namespace: string, name: string): Promise<void> {
    if (!this.running.some((pod) => pod.namespace === namespace && pod.name === name))
      throw new SeineError('INVALID_INPUT', `no pod ${namespace}/${name} runs here`);
    throw new SeineError('INVALID_INPUT', 'a real kubelet runs no CHECK');
  }

  async start(api: KubeApi, pluginFolders: readonly string[], signal: AbortSignal): Promise<void> {
    const { plan, log, ...parts } = this.#options;
    for (const node of plan.nodes) this.#runtimes.set(node.name, new NodeRuntime({ plan, node, pluginFolders, ...parts }));
    await Promise.all([...this.#runtimes.values()].map((runtime) => runtime.start(signal)));
    await createClusterDns(api, plan, signal);
    this.#tasks.push(this.#watchNodes(api, signal));
    const nothing = () => undefined;
    this.#tasks.push(api.follow('/api/v1/pods', this.#pods, nothing, nothing, signal), this.#respond(signal));
    log.info('kubelets are started', { nodes: plan.nodes.length });
  }

  async ended(): Promise<void> {
    await Promise.all(this.#tasks);
  }

  /** @throws SeineError `INVALID_INPUT` if there is no such node, or the program to stop does not run */
  async turn(node: string, program: NodeProgram, verb: 'start' | 'stop' | 'kill', signal: AbortSignal): Promise<void> {
    const runtime = this.#runtimes.get(node);
    if (runtime === undefined) throw new SeineError('INVALID_INPUT', `no node ${node}`);
    if (verb === 'stop') await runtime.stop(program);
    else if (verb === 'kill') await runtime.kill(program);
    else if (program === 'containerd') await runtime.startContainerd(signal);
    else runtime.startKubelet();
  }

  process(node: string, program: NodeProgram): number | null {
    return this.#runtimes.get(node)?.process(program)?.pid ?? null;
  }

  #attachedOn(node: NodePlan): PodStatusLine[] {
    const runtime = this.#runtimes.get(node.name);
    if (runtime === undefined) return [];
    return attachedPods(runtime.paths, network).map(({ containerId, ...pod }) => ({
      ...pod,
      node: node.name,
      containerID: containerId,
    }));
  }

  #hostPodsOn(node: NodePlan): PodStatusLine[] {
    return [...this.#pods.values()].flatMap((object) => {
      const pod = nodeOf(object) === node.name ? parsePod(object) : undefined;
      if (pod?.hostNetwork !== true) return [];
      const { namespace, name, uid } = pod;
      return { namespace, name, node: node.name, netns: node.netns, ips: node.ips, containerID: uid };
    });
  }

  /**
   * A node is ready when its kubelet and its agent are, and the control plane has a route to its pods. In a bare lab the Node object is
   * enough. It may be recreated with another pod network, so it is watched for the lifetime of the lab.
   */
  async #watchNodes(api: KubeApi, signal: AbortSignal): Promise<void> {
    const { plan } = this.#options;
    while (!signal.aborted && (plan.bare || this.#ready.size < plan.nodes.length)) {
      const objects = await api.send({ method: 'GET', path: '/api/v1/nodes' }, signal).catch(() => undefined);
      const { data } = z.looseObject({ items: z.array(z.unknown()) }).safeParse(objects);
      for (const object of data?.items ?? []) await this.#lookAtNode(object, signal);
      await pause(this.#ready.size < plan.nodes.length ? pollMs : watchMs, signal);
    }
  }

  async #lookAtNode(object: unknown, signal: AbortSignal): Promise<void> {
    const { plan, log } = this.#options;
    const { data } = knownNode.safeParse(object);
    const node = plan.nodes.find(({ name }) => name === data?.metadata.name);
    if (data === undefined || node === undefined || (this.#ready.has(node.name) && !plan.bare)) return;
    if (!plan.bare && !(await isRunningPods(plan, node, data.status.conditions))) return;
    const ways = data.spec.podCIDRs.flatMap((podCidr) => {
      const via = node.ips.find((ip) => ip.includes(':') === podCidr.includes(':'));
      return via === undefined ? [] : { podCidr, via };
    });
    try {
      await routeToPods(plan, ways, signal);
      this.#ready.add(node.name);
    } catch (error) {
      log.warn('no way to the pods of a node yet', { node: node.name, error: String(error) });
    }
  }

  /** Runs the lab's responder in each pod of its image, as long as the pod has its network. */
  async #respond(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const wanted = new Map(this.running.flatMap((pod) => this.#responderOf(pod)));
      for (const [id, start] of wanted) if (!this.#responders.has(id)) this.#responders.set(id, start());
      const gone = [...this.#responders].filter(([id]) => !wanted.has(id));
      for (const [id, container] of gone) {
        this.#responders.delete(id);
        await container.stop(0, AbortSignal.abort());
      }
      await pause(pollMs, signal);
    }
    await Promise.all([...this.#responders.values()].map((container) => container.stop(0, AbortSignal.abort())));
  }

  #responderOf(pod: PodStatusLine): [id: string, start: () => Container][] {
    const { plan } = this.#options;
    const object = this.#pods.get(`${pod.namespace}/${pod.name}`);
    const spec = object && parsePod(object);
    const node = plan.nodes.find(({ name }) => name === pod.node);
    const container = spec?.containers.find(({ image, command }) => image === responderImage && command === undefined);
    if (object === undefined || spec === undefined || node === undefined || container === undefined || isLeaving(spec)) return [];
    const start = () =>
      new Container({
        spec: { ...container, readinessProbe: undefined },
        pod: keyOf(object.metadata),
        node: pod.node,
        netns: pod.netns,
        nodeNetns: node.netns,
        ips: pod.ips,
        restartPolicy: spec.restartPolicy,
        env: {},
        logFile: join(nodePaths(plan.dir, pod.node).dir, 'responders.log'),
        changed: () => undefined,
      });
    return [[`${pod.containerID}/${container.name}`, start]];
  }
}

async function isRunningPods(plan: LabPlan, node: NodePlan, conditions: readonly { type: string; status: string }[]): Promise<boolean> {
  if (!conditions.some(({ type, status }) => type === 'Ready' && status === 'True')) return false;
  return (await agentReadiness(nodePaths(plan.dir, node.name).apiSocket)).ready;
}

/** Its grace period ends immediately: the responder is not one of its processes. */
function isLeaving({ deletionGraceSeconds }: PodSpec): boolean {
  return deletionGraceSeconds !== undefined;
}

/**
 * Checks for existence first: the address of an existing Service is taken, and the server reports that before it reports that the Service
 * exists.
 */
async function createClusterDns(api: KubeApi, plan: LabPlan, signal: AbortSignal): Promise<void> {
  for (const { collection, name, object } of clusterDnsObjects(plan)) {
    try {
      await api.send({ method: 'GET', path: `${collection}/${name}` }, signal);
    } catch (error) {
      if (!(error instanceof SeineError && error.context['status'] === 404)) throw error;
      await api.send({ method: 'POST', path: collection, body: object }, signal);
    }
  }
}
