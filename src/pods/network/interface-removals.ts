import { abortable } from '../../base/async/abortable.ts';
import type { LinksTarget } from '../../dataplane/targets/links/links-target.ts';
import type { PodAttachment } from '../ipam/attachment.ts';
import { attachmentId } from '../ipam/lease.ts';

interface InterfaceRemoval {
  /** Id of the attachment. */
  readonly id: string;
  readonly netns: string;
  readonly ifName: string;
  readonly done: Promise<void>;
}

/** Pairs that the kernel is still removing. A veth takes about 16 ms; only an ADD of the same interface has to wait. */
export class InterfaceRemovals {
  readonly #links: Pick<LinksTarget, 'releaseNow'>;
  readonly #underWay = new Map<string, InterfaceRemoval>();

  constructor(links: Pick<LinksTarget, 'releaseNow'>) {
    this.#links = links;
  }

  get areNone(): boolean {
    return this.#underWay.size === 0;
  }

  /** Adds a removal. @param removal rejects if the agent stops @returns resolves once the pair is gone, or cannot be removed */
  add(hostIfName: string, want: PodAttachment, removal: Promise<void>): Promise<void> {
    const { netns, ifName } = want;
    const done = removal
      .catch(() => undefined) // the agent stops
      .finally(() => {
        if (this.#underWay.get(hostIfName)?.done === done) this.#underWay.delete(hostIfName);
      });
    this.#underWay.set(hostIfName, { id: attachmentId(want), netns, ifName, done });
    return done;
  }

  /** Reports whether a pair with this name, or of the attachment with this id, is being removed. */
  isUnderWay(hostIfName: string, id: string): boolean {
    for (const [name, removal] of this.#underWay) if (name === hostIfName || removal.id === id) return true;
    return false;
  }

  /** Waits for removals of this name and of the pod's interface, and requests them at once. */
  async untilOver(hostIfName: string, want: PodAttachment, signal: AbortSignal): Promise<void> {
    const blockingRemovals = [...this.#underWay].filter(
      ([name, { netns, ifName }]) => name === hostIfName || (netns === want.netns && ifName === want.ifName),
    );
    if (blockingRemovals.length === 0) return;
    for (const [name] of blockingRemovals) this.#links.releaseNow(name);
    await abortable(Promise.all(blockingRemovals.map(([, { done }]) => done)), signal);
  }
}
