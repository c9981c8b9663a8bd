import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { pause } from '../../src/base/async/pause.ts';
import { Doorbell } from '../../src/base/async/wake-signal.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import type { Log } from '../../src/base/log/log.ts';
import type { KubeApi } from '../kube/kube-api.ts';
import { podMark } from '../machine/process.ts';
import type { NodePlan } from '../plan/plan.ts';
import { Container } from './container.ts';
import { warnAboutPod } from './pod-event.ts';
import type { PodSpec } from './pod-spec.ts';
import { type PodStatus, podStatus, waitingContainers } from './pod-status.ts';
import type { Sandbox, Sandboxes } from './sandbox.ts';

const networkDeadlineMs = 60_000;
const eventDeadlineMs = 2_000;
const retryMs = { first: 200, most: 10_000 };

interface PodWorkerOptions {
  readonly pod: PodSpec;
  /** Sandbox of an earlier run of the kubelet. */
  readonly sandbox: Sandbox | undefined;
  readonly sandboxes: Sandboxes;
  readonly node: NodePlan;
  readonly logFolder: string;
  readonly api: KubeApi;
  readonly log: Log;
}

/** One pod, from its binding to the node until all of it is removed. */
export class PodWorker {
  readonly uid: string;
  /** Resolves when the pod is removed from the node. */
  readonly done: Promise<void>;
  readonly #options: PodWorkerOptions;
  readonly #startTime = new Date().toISOString();
  readonly #leave = new AbortController();
  readonly #statusBell = new Doorbell();
  #pod: PodSpec;
  #sandbox: Sandbox | undefined;
  #containers: readonly Container[] = [];
  #problem: string | undefined;
  #writtenStatus: PodStatus | undefined;
  #presence: 'present' | 'gone' = 'present';
  readonly #vanished = new AbortController();
  #finished = false;

  constructor(options: PodWorkerOptions) {
    this.#options = options;
    this.#pod = options.pod;
    this.uid = options.pod.uid;
    this.update(options.pod);
    this.done = this.#live();
  }

  get sandbox(): Sandbox | undefined {
    return this.#sandbox;
  }

  get pod(): PodSpec {
    return this.#pod;
  }

  update(pod: PodSpec): void {
    this.#pod = pod;
    if (pod.deletionGraceSeconds !== undefined) this.#leave.abort();
  }

  /** Ends the pod immediately: the API server no longer has it. */
  vanish(): void {
    this.#presence = 'gone';
    this.#vanished.abort();
    this.#leave.abort();
  }

  async check(signal: AbortSignal): Promise<void> {
    if (this.#sandbox === undefined) throw new SeineError('REFUSED', 'the pod has no network');
    await this.#options.sandboxes.check(this.#sandbox, this.#pod, signal);
  }

  async #live(): Promise<void> {
    const ended = new AbortController();
    const reporting = this.#report(ended.signal);
    try {
      await this.#connect();
      if (!this.#leave.signal.aborted) await this.#runContainers();
    } finally {
      await this.#depart();
      ended.abort();
      this.#statusBell.ring();
      await reporting;
    }
  }

  /** Retries until the pod has a network or is deleted. */
  async #connect(): Promise<void> {
    const { sandboxes, node, log, sandbox } = this.#options;
    const { namespace, name, hostNetwork } = this.#pod;
    if (hostNetwork) {
      this.#sandbox = { uid: this.uid, namespace, name, containerId: this.uid.replaceAll('-', ''), netns: node.netns, ips: node.ips };
      return;
    }
    if (sandbox !== undefined && sandbox.ips.length > 0) {
      this.#sandbox = sandbox;
      return;
    }
    if (sandbox !== undefined) await this.#removeSandbox(sandbox);
    for (let waitMs = retryMs.first; !this.#leave.signal.aborted; waitMs = Math.min(waitMs * 2, retryMs.most)) {
      try {
        this.#sandbox = await sandboxes.create(this.#pod, AbortSignal.timeout(networkDeadlineMs));
        this.#problem = undefined;
        return;
      } catch (error) {
        this.#problem = SeineError.from(error, 'set up the network').message;
        log.warn('no network for a pod', { pod: `${namespace}/${name}`, error: this.#problem, retryMs: waitMs });
        this.#statusBell.ring();
        const event = { reason: 'FailedCreatePodSandBox', message: this.#problem };
        // The log and the pod's status have it too, so a rejected event is not a loss.
        await warnAboutPod(this.#options.api, this.#pod, node.name, event, AbortSignal.timeout(eventDeadlineMs)).catch(() => {});
        await pause(waitMs, this.#leave.signal);
      }
    }
  }

  /** Runs containers until the pod is deleted, or all of them have ended for good. */
  async #runContainers(): Promise<void> {
    const { namespace, name, containers, restartPolicy } = this.#pod;
    const { node, logFolder } = this.#options;
    const { netns = '', ips = [] } = this.#sandbox ?? {};
    const changed = () => {
      this.#statusBell.ring();
      if (restartPolicy !== 'Always' && this.#allEnded()) this.#leave.abort();
    };
    this.#containers = containers.map(
      (spec) =>
        new Container({
          spec,
          pod: `${namespace}/${name}`,
          node: node.name,
          netns,
          nodeNetns: node.netns,
          ips,
          restartPolicy,
          env: environmentFor(this.#pod, node, ips, spec.env),
          logFile: join(logFolder, `${namespace}_${name}_${spec.name}.log`),
          changed,
        }),
    );
    this.#statusBell.ring();
    if (this.#leave.signal.aborted) return;
    await new Promise<void>((resolve) => this.#leave.signal.addEventListener('abort', () => resolve(), { once: true }));
  }

  /** Reports whether all containers have been started, and have ended for good. */
  #allEnded(): boolean {
    const { restartPolicy, containers } = this.#pod;
    const ended = this.#containers.filter(
      ({ state: { run } }) => run.is === 'terminated' && (restartPolicy === 'Never' || run.exitCode === 0),
    );
    return ended.length === containers.length;
  }

  async #depart(): Promise<void> {
    const grace = this.#presence === 'gone' ? 0 : (this.#pod.deletionGraceSeconds ?? 0);
    await Promise.all(this.#containers.map((container) => container.stop(grace, this.#vanished.signal)));
    this.#finished = this.#containers.length > 0 && this.#pod.deletionGraceSeconds === undefined && this.#presence === 'present';
    this.#statusBell.ring();
    if (this.#sandbox !== undefined && !this.#pod.hostNetwork) await this.#removeSandbox(this.#sandbox);
    if (!this.#finished && this.#presence === 'present') await this.#deleteObject();
  }

  /** Retries until the plugins succeed: a pod that is not removed from the network would keep its address forever. */
  async #removeSandbox(sandbox: Sandbox): Promise<void> {
    for (let waitMs = retryMs.first; ; waitMs = Math.min(waitMs * 2, retryMs.most)) {
      try {
        await this.#options.sandboxes.remove(sandbox, AbortSignal.timeout(networkDeadlineMs));
        this.#sandbox = undefined;
        return;
      } catch (error) {
        const { namespace, name } = sandbox;
        this.#options.log.warn('a pod stays on the network', { pod: `${namespace}/${name}`, error: String(error), retryMs: waitMs });
        await sleep(waitMs);
      }
    }
  }

  /** The last act of a kubelet: nothing of the pod is left, so its object may be deleted. */
  async #deleteObject(): Promise<void> {
    const { api } = this.#options;
    const { namespace, name } = this.#pod;
    const body = { kind: 'DeleteOptions', apiVersion: 'v1', gracePeriodSeconds: 0, preconditions: { uid: this.uid } };
    for (let waitMs = retryMs.first; this.#presence === 'present'; waitMs = Math.min(waitMs * 2, retryMs.most)) {
      try {
        await api.send(
          { method: 'DELETE', path: `/api/v1/namespaces/${namespace}/pods/${name}`, body },
          AbortSignal.timeout(networkDeadlineMs),
        );
        return;
      } catch (error) {
        if (isGone(error)) return;
        await sleep(waitMs);
      }
    }
  }

  /** Keeps the status in the API server equal to ours. */
  async #report(ended: AbortSignal): Promise<void> {
    for (this.#statusBell.ring(); !ended.aborted; ) {
      await this.#statusBell.wait();
      if (this.#presence === 'gone' || (ended.aborted && !this.#finished)) continue;
      await this.#writeStatus().catch(async (error: unknown) => {
        if (isGone(error) || ended.aborted) return;
        await sleep(retryMs.first);
        this.#statusBell.ring();
      });
    }
  }

  async #writeStatus(): Promise<void> {
    const { api, node } = this.#options;
    const { namespace, name, containers, restartPolicy } = this.#pod;
    const states = this.#containers.map(({ state }) => state);
    const facts = {
      containers: states.length > 0 ? states : waitingContainers(containers, this.#problem),
      restartPolicy,
      ips: this.#sandbox?.ips ?? [],
      hostIps: node.ips,
      startTime: this.#startTime,
      ...(this.#sandbox !== undefined && { containerId: this.#sandbox.containerId }),
      ...(this.#problem !== undefined && { problem: this.#problem }),
    };
    const status = podStatus(facts, this.#writtenStatus, new Date().toISOString());
    if (JSON.stringify(status) === JSON.stringify(this.#writtenStatus)) return;
    const path = `/api/v1/namespaces/${namespace}/pods/${name}/status`;
    const body = { metadata: { uid: this.uid }, status };
    await api.send({ method: 'PATCH', path, body, contentType: 'application/merge-patch+json' }, AbortSignal.timeout(networkDeadlineMs));
    this.#writtenStatus = status;
  }
}

/** 404: no such pod. 409: another pod of that name. */
function isGone(error: unknown): boolean {
  return error instanceof SeineError && (error.context['status'] === 404 || error.context['status'] === 409);
}

function environmentFor(
  pod: PodSpec,
  node: NodePlan,
  ips: readonly string[],
  own: readonly { readonly name: string; readonly value: string }[],
): Record<string, string> {
  return {
    [podMark]: pod.uid,
    HOSTNAME: pod.name,
    POD_NAME: pod.name,
    POD_NAMESPACE: pod.namespace,
    POD_IP: ips[0] ?? '',
    POD_IPS: ips.join(','),
    NODE_NAME: node.name,
    ...Object.fromEntries(own.map(({ name, value }) => [name, value])),
  };
}
