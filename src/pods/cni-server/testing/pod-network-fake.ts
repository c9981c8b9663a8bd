import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Mac } from '../../../base/net/mac.ts';
import type { ReadyState } from '../../../nodes/local/readiness.ts';
import type { AttachedPod, AttachmentKey, PodAttachment } from '../../ipam/attachment.ts';
import { attachmentId } from '../../ipam/lease.ts';
import type { PodNetwork } from '../pod-network.ts';

/** Data plane in memory with the guarantees of `PodNetwork`, for tests. Faults are injected from outside. */
export class FakePodNetwork implements PodNetwork {
  /** Pods attached at this moment, by `attachmentId`. */
  readonly wired = new Map<string, PodAttachment>();
  /** Existing namespaces; if empty, every path is one. */
  readonly namespaces = new Set<string>();
  /** Promise for which each attach and detach waits. */
  gate: Promise<void> = Promise.resolve();
  failAttach: SeineError | undefined;
  failDetach: SeineError | undefined;
  /** Result of the next checks. */
  differences: readonly string[] = [];
  state: ReadyState = { state: 'ready' };
  readonly #active = new Set<string>();
  readonly #waiting = new Set<() => void>();
  /** Maximum number of containers in work at the same time. */
  mostAtOnce = 0;

  async attach(want: PodAttachment, signal: AbortSignal): Promise<AttachedPod> {
    return await this.#exclusively(want, async () => {
      if (!this.#exists(want.netns))
        throw new SeineError('INVALID_INPUT', `${want.netns} does not exist`, { context: { variable: 'CNI_NETNS' } });
      const taken =
        want.ifName === 'lo' || [...this.wired.values()].some(({ netns, ifName }) => netns === want.netns && ifName === want.ifName);
      if (taken)
        throw new SeineError('INVALID_INPUT', `${want.ifName} exists already in ${want.netns}`, { context: { variable: 'CNI_IFNAME' } });
      await this.gate;
      if (signal.aborted) throw SeineError.from(signal.reason, 'attach');
      if (this.failAttach) throw this.failAttach;
      this.wired.set(attachmentId(want), want);
      return { hostIfName: `veth${this.wired.size}`, hostMac: '02:00:00:00:00:01' as Mac, mtu: 1450 };
    });
  }

  async detach(key: AttachmentKey, _signal: AbortSignal): Promise<void> {
    await this.#exclusively(key, async () => {
      await this.gate;
      if (this.failDetach) throw this.failDetach;
      this.wired.delete(attachmentId(key));
    });
  }

  async check(want: PodAttachment, _attached: AttachedPod, _signal: AbortSignal): Promise<readonly string[]> {
    return await this.#exclusively(want, async () => {
      await Promise.resolve();
      if (!this.#exists(want.netns)) return [`${want.netns} does not exist`];
      return this.wired.has(attachmentId(want)) ? this.differences : [`${want.ifName} is missing`];
    });
  }

  ready(): ReadyState {
    return this.state;
  }

  async whenReady(signal: AbortSignal): Promise<void> {
    while (this.state.state !== 'ready') {
      if (signal.aborted) throw SeineError.from(signal.reason, 'wait until ready');
      await new Promise<void>((resolve) => {
        this.#waiting.add(resolve);
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  /** Reports whether a caller waits for readiness. */
  get isAwaited(): boolean {
    return this.#waiting.size > 0;
  }

  become(state: ReadyState): void {
    this.state = state;
    for (const resolve of this.#waiting) resolve();
    this.#waiting.clear();
  }

  #exists(netns: string): boolean {
    return this.namespaces.size === 0 || this.namespaces.has(netns);
  }

  /** Runs work exclusively. The server guarantees never to call twice for one container, so a concurrent call is a bug. */
  async #exclusively<T>({ containerId }: AttachmentKey, work: () => Promise<T>): Promise<T> {
    if (this.#active.has(containerId)) throw new SeineError('INVARIANT', `two calls for ${containerId} at a time`);
    this.#active.add(containerId);
    this.mostAtOnce = Math.max(this.mostAtOnce, this.#active.size);
    try {
      return await work();
    } finally {
      this.#active.delete(containerId);
    }
  }
}
