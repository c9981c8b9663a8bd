/** After the first line the next one comes no sooner than this, then each after twice as long (ms). */
const FIRST_WAIT_MS = 5_000;
const MOST_WAIT_MS = 10 * 60_000;
/** What has not failed for so long and was never said to work fails anew (ms). */
const FORGET_MS = 15 * 60_000;
/** Of one failure, so many causes are told apart: two that take turns must not fill the log either. */
const CAUSES_MAX = 8;
const KEYS_MAX = 1_000;

/** How often, and for how long. */
export interface Series {
  readonly times: number;
  readonly seconds: number;
}

interface Entry {
  readonly firstMs: number;
  readonly causes: Set<string>;
  times: number;
  lastMs: number;
  waitMs: number;
  nextMs: number;
}

/** Decides which of many failures of the same thing are worth a line: the first at once, then one at growing intervals, each new cause. */
export class Repeats {
  readonly #now: () => number;
  readonly #entries = new Map<string, Entry>();

  /** @param now milliseconds that never go back */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * @param key names what fails
   * @param cause why, as far as it makes a difference
   * @returns the series so far if this one is worth a line, of which `times` is 1 for the first
   */
  failed(key: string, cause: string): Series | undefined {
    const nowMs = this.#now();
    const known = this.#entries.get(key);
    if (known === undefined || nowMs - known.lastMs > FORGET_MS) {
      this.#remember(key, {
        firstMs: nowMs,
        causes: new Set([cause]),
        times: 1,
        lastMs: nowMs,
        waitMs: FIRST_WAIT_MS,
        nextMs: nowMs + FIRST_WAIT_MS,
      });
      return { times: 1, seconds: 0 };
    }
    known.times++;
    known.lastMs = nowMs;
    const isNews = !known.causes.has(cause) && known.causes.size < CAUSES_MAX;
    if (isNews) known.causes.add(cause);
    else if (nowMs < known.nextMs) return undefined;
    else {
      known.waitMs = Math.min(MOST_WAIT_MS, 2 * known.waitMs);
      known.nextMs = nowMs + known.waitMs;
    }
    return series(known, nowMs);
  }

  /** @returns the series that is over now; undefined if there was none */
  worked(key: string): Series | undefined {
    const known = this.#entries.get(key);
    if (known === undefined) return undefined;
    this.#entries.delete(key);
    return series(known, this.#now());
  }

  /** Whoever fails under ever new names is forgotten in order of age. */
  #remember(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > KEYS_MAX && oldest !== undefined) this.#entries.delete(oldest);
  }
}

function series({ times, firstMs }: Entry, nowMs: number): Series {
  return { times, seconds: Math.round((nowMs - firstMs) / 1_000) };
}
