import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Log } from '../../src/base/log/log.ts';
import { type KubeApi, nodeOf, type UnstructuredObject } from '../kube/kube-api.ts';
import type { Kubelet } from '../kubelet/kubelet.ts';
import type { LabPlan } from '../plan/plan.ts';
import { makeKubelet } from './node-runner.ts';
import type { PodRunners } from './pod-runners.ts';
import type { PodStatusLine } from './status.ts';

/** The lab's own small kubelets, all of them in this process. */
export class LabKubelets implements PodRunners {
  readonly #plan: LabPlan;
  readonly #log: Log;
  readonly #kubelets = new Map<string, Kubelet>();
  readonly #pods = new Map<string, UnstructuredObject>();
  readonly #tasks: Promise<void>[] = [];

  constructor(plan: LabPlan, log: Log) {
    this.#plan = plan;
    this.#log = log;
  }

  get running(): readonly PodStatusLine[] {
    return [...this.#kubelets.values()].flatMap(({ running }) => running);
  }

  isReady(node: string): boolean {
    return this.#kubelets.get(node)?.ready ?? false;
  }

  async check(namespace: string, name: string, signal: AbortSignal): Promise<void> {
    const key = `${namespace}/${name}`;
    const worker = [...this.#kubelets.values()].flatMap((kubelet) => kubelet.worker(key) ?? [])[0];
    if (worker === undefined) throw new SeineError('INVALID_INPUT', `no pod ${key} runs here`);
    await worker.check(signal);
  }

  async start(api: KubeApi, pluginFolders: readonly string[], signal: AbortSignal): Promise<void> {
    const parts = { api, pluginFolders, log: this.#log };
    for (const node of this.#plan.nodes) this.#kubelets.set(node.name, makeKubelet(this.#plan, node, parts, this.#pods));
    const lastNode = new Map<string, string>();
    const listed = Promise.withResolvers<void>();
    const changed = (key: string) => {
      const object = this.#pods.get(key);
      const node = (object && nodeOf(object)) ?? lastNode.get(key);
      if (object === undefined) lastNode.delete(key);
      else if (node !== undefined) lastNode.set(key, node);
      if (node !== undefined) this.#kubelets.get(node)?.podChanged(key);
    };
    this.#tasks.push(api.follow('/api/v1/pods', this.#pods, changed, listed.resolve, signal));
    for (const kubelet of this.#kubelets.values()) this.#tasks.push(kubelet.run(listed.promise, signal));
  }

  async ended(): Promise<void> {
    await Promise.all(this.#tasks);
  }
}
