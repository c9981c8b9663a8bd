import type { IfIndex } from '../../netlink/interface-name.ts';
import type { Link } from '../../netlink/links.ts';

/** Time for which an interface is not read again (ms). */
const RECENT_MS = 1_000;

interface RecentLinksOptions {
  /** Reads an interface from the kernel. */
  readonly read: (index: IfIndex) => Link | undefined;
  /** Monotonic (ms). */
  readonly now: () => number;
}

/**
 * Interfaces as the kernel reported them within the last second. A check of a thousand peers asks for the same one a thousand times, and the
 * kernel's answer has fifty attributes.
 */
export class RecentLinks {
  readonly #options: RecentLinksOptions;
  readonly #links = new Map<IfIndex, Link | undefined>();
  #sinceMs = Number.NEGATIVE_INFINITY;

  constructor(options: RecentLinksOptions) {
    this.#options = options;
  }

  /** Undefined if there is none. */
  get(index: IfIndex): Link | undefined {
    const { read, now } = this.#options;
    const nowMs = now();
    if (nowMs - this.#sinceMs >= RECENT_MS) {
      this.#links.clear();
      this.#sinceMs = nowMs;
    }
    if (!this.#links.has(index)) this.#links.set(index, read(index));
    return this.#links.get(index);
  }
}
