import type { EventRecorder } from './event-stream.ts';

/** Effect of policies on a pod, as far as it is recorded. */
interface WatchedStanding {
  readonly is: 'free' | 'policed' | 'closed' | 'suspended' | 'undecided';
  readonly why?: string;
  readonly ingress: readonly string[];
  readonly egress: readonly string[];
}

/** Values that are compared each second; undefined until the node is known. */
interface WatchedNode {
  readonly readiness: { readonly state: string; readonly reason?: string };
  readonly pods: ReadonlyMap<string, WatchedStanding> | undefined;
}

/** Records changes of values that the agent keeps up to date without events: readiness, and the effect of policies on each pod. */
export class NodeWatch {
  readonly #events: EventRecorder;
  readonly #node: string;
  #readiness = '';
  #pods: ReadonlyMap<string, string> | undefined;

  constructor(events: EventRecorder, node: string) {
    this.#events = events;
    this.#node = node;
  }

  compare({ readiness, pods }: WatchedNode): void {
    const state = readiness.state === 'ready' ? 'ready' : `${readiness.state}: ${readiness.reason ?? ''}`;
    if (state !== this.#readiness) {
      if (readiness.state === 'ready') this.#events.note('agent.ready', [`node/${this.#node}`], {});
      else this.#events.note('agent.notReady', [`node/${this.#node}`], { reason: readiness.reason ?? readiness.state });
    }
    this.#readiness = state;
    if (pods !== undefined) this.#comparePods(pods);
  }

  #comparePods(pods: ReadonlyMap<string, WatchedStanding>): void {
    const before = this.#pods;
    const after = new Map([...pods].map(([pod, standing]) => [pod, JSON.stringify(standing)]));
    for (const [pod, standing] of pods) {
      if (before !== undefined && !before.has(pod)) this.#events.note('pod.attached', [`pod/${pod}`], {});
      if (before?.get(pod) !== after.get(pod)) this.#noteStanding(pod, standing);
    }
    for (const pod of before?.keys() ?? []) if (!pods.has(pod)) this.#events.note('pod.detached', [`pod/${pod}`], {});
    this.#pods = after;
  }

  #noteStanding(pod: string, { is, why = '', ingress, egress }: WatchedStanding): void {
    const subjects = [`pod/${pod}`, ...new Set([...ingress, ...egress].map((policy) => `policy/${policy}`))];
    switch (is) {
      case 'free':
        this.#events.note('policy.free', subjects, {});
        break;
      case 'policed':
        this.#events.note('policy.isolated', subjects, { ingress, egress });
        break;
      case 'closed':
        this.#events.note('policy.blocked', subjects, { reason: why });
        break;
      case 'suspended':
        this.#events.note('policy.suspendedPod', subjects, { reason: why });
        break;
      case 'undecided':
        this.#events.note('policy.undecided', subjects, {});
        break;
    }
  }
}
