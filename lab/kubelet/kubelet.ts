import { hostname, release } from 'node:os';
import { pause } from '../../src/base/async/pause.ts';
import { within } from '../../src/base/async/time-limit.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Log } from '../../src/base/log/log.ts';
import { type KubeApi, nodeOf, type UnstructuredObject } from '../kube/kube-api.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';
import { parsePod } from './pod-spec.ts';
import { PodWorker } from './pod-worker.ts';
import type { Sandbox, Sandboxes } from './sandbox.ts';

const apiDeadlineMs = 15_000;
const readinessPollMs = { waiting: 50, ready: 2_000 };

interface KubeletOptions {
  readonly plan: LabPlan;
  readonly node: NodePlan;
  readonly api: KubeApi;
  readonly sandboxes: Sandboxes;
  readonly logFolder: string;
  /** Reports whether the node can take pods. Called often. */
  readonly networkReady: () => Promise<boolean>;
  readonly log: Log;
}

/** A pod in the lab's status. */
interface RunningPod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly netns: string;
  readonly ips: readonly string[];
  readonly containerID: string;
}

/**
 * The kubelet of one node: registers it, runs the pods bound to it, removes the remains of deleted ones.
 *
 * Level-triggered: `podChanged` only marks a key for processing. One pod of a name is removed from the node before the next of that name is
 * started.
 */
export class Kubelet {
  readonly #options: KubeletOptions;
  readonly #workers = new Map<string, PodWorker>();
  readonly #leftovers: Map<string, Sandbox>;
  readonly #pods: ReadonlyMap<string, UnstructuredObject>;
  #ready = false;

  /** @param pods the copy of the API server's pods, of all nodes, kept by the caller */
  constructor(options: KubeletOptions, pods: ReadonlyMap<string, UnstructuredObject>) {
    this.#options = options;
    this.#pods = pods;
    this.#leftovers = new Map(options.sandboxes.recorded().map((sandbox) => [sandbox.uid, sandbox]));
  }

  get ready(): boolean {
    return this.#ready;
  }

  get running(): RunningPod[] {
    return [...this.#workers.values()].flatMap(({ sandbox, pod }) =>
      sandbox === undefined || (sandbox.ips.length === 0 && !pod.hostNetwork)
        ? []
        : {
            namespace: pod.namespace,
            name: pod.name,
            node: this.#options.node.name,
            netns: sandbox.netns,
            ips: sandbox.ips,
            containerID: sandbox.containerId,
          },
    );
  }

  worker(key: string): PodWorker | undefined {
    return this.#workers.get(key);
  }

  /** @param key `namespace/name` */
  podChanged(key: string): void {
    const object = this.#pods.get(key);
    // A mirror pod shows a process that another program runs.
    if (object?.metadata.annotations?.['kubernetes.io/config.mirror'] !== undefined) return;
    const pod = object === undefined ? undefined : parsePod(object);
    const worker = this.#workers.get(key);
    if (worker !== undefined) {
      if (pod?.uid === worker.uid) worker.update(pod);
      else worker.vanish();
      return;
    }
    if (
      pod === undefined ||
      object === undefined ||
      nodeOf(object) !== this.#options.node.name ||
      (isFinished(object) && pod.deletionGraceSeconds === undefined)
    )
      return;
    this.#start(key, new PodWorker({ ...this.#options, pod, sandbox: this.#leftovers.get(pod.uid) }));
    this.#leftovers.delete(pod.uid);
  }

  #start(key: string, worker: PodWorker): void {
    this.#workers.set(key, worker);
    const gone = (error?: unknown) => {
      if (error !== undefined) this.#options.log.error('a pod worker failed', { pod: key, error: String(error) });
      this.#workers.delete(key);
      this.podChanged(key);
    };
    worker.done.then(() => gone(), gone);
  }

  /** Registers the node and reports when it becomes ready; then removes the remains of an earlier run. Runs until the signal. */
  async run(podsListed: Promise<void>, signal: AbortSignal): Promise<void> {
    await this.#persist('register the node', signal, () => this.#register(signal));
    while (!signal.aborted && !(await this.#options.networkReady())) await pause(readinessPollMs.waiting, signal);
    await this.#persist('report the node ready', signal, () => this.#writeStatus('True', signal));
    this.#ready = true;
    await podsListed;
    await this.#removeLeftovers(signal);
    await this.#persist('collect garbage', signal, () => this.#options.sandboxes.collectGarbage(signal));
  }

  /** Sandboxes of pods that were deleted while the kubelet did not run. */
  async #removeLeftovers(signal: AbortSignal): Promise<void> {
    for (const [uid, sandbox] of this.#leftovers) {
      await this.#persist('remove a leftover pod', signal, () => this.#options.sandboxes.remove(sandbox, signal));
      this.#leftovers.delete(uid);
    }
  }

  async #persist(doing: string, signal: AbortSignal, act: () => Promise<void>): Promise<void> {
    for (let waitMs = 200; !signal.aborted; waitMs = Math.min(waitMs * 2, 10_000)) {
      try {
        return await act();
      } catch (error) {
        this.#options.log.warn(doing, { error: SeineError.from(error, doing).message, retryMs: waitMs });
        await pause(waitMs, signal);
      }
    }
  }

  async #register(signal: AbortSignal): Promise<void> {
    const { node, plan, api } = this.#options;
    const zone = plan.nodes.indexOf(node) % 2 === 0 ? 'a' : 'b';
    const labels = {
      'kubernetes.io/hostname': node.name,
      'kubernetes.io/os': 'linux',
      'kubernetes.io/arch': process.arch === 'x64' ? 'amd64' : process.arch,
      'topology.kubernetes.io/zone': zone,
    };
    const body = { apiVersion: 'v1', kind: 'Node', metadata: { name: node.name, labels }, spec: {} };
    try {
      await api.send({ method: 'POST', path: '/api/v1/nodes', body }, within(signal, apiDeadlineMs));
    } catch (error) {
      // 409: it was registered before.
      if (!(error instanceof SeineError && error.context['status'] === 409)) throw error;
    }
    await this.#writeStatus('False', signal);
  }

  async #writeStatus(ready: 'True' | 'False', signal: AbortSignal): Promise<void> {
    const { node, api } = this.#options;
    const now = new Date().toISOString();
    const reason = ready === 'True' ? 'KubeletReady' : 'NetworkNotReady';
    const status = {
      addresses: [...node.ips.map((address) => ({ type: 'InternalIP', address })), { type: 'Hostname', address: node.name }],
      capacity: { cpu: '2', memory: '4Gi', pods: '500' },
      allocatable: { cpu: '2', memory: '4Gi', pods: '500' },
      conditions: [{ type: 'Ready', status: ready, reason, message: '', lastHeartbeatTime: now, lastTransitionTime: now }],
      nodeInfo: {
        machineID: '',
        systemUUID: '',
        bootID: '',
        kernelVersion: release(),
        osImage: hostname(),
        containerRuntimeVersion: 'seine-lab://0.1.0',
        kubeletVersion: 'v1.33.0-seine-lab',
        kubeProxyVersion: '',
        operatingSystem: 'linux',
        architecture: process.arch === 'x64' ? 'amd64' : process.arch,
      },
    };
    const contentType = 'application/merge-patch+json';
    await api.send({ method: 'PATCH', path: `/api/v1/nodes/${node.name}/status`, body: { status }, contentType }, signal);
  }
}

function isFinished({ status }: UnstructuredObject): boolean {
  return typeof status === 'object' && status !== null && 'phase' in status && (status.phase === 'Succeeded' || status.phase === 'Failed');
}
