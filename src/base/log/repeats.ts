/** Interval after the first line (ms); each further one is twice as long. */
const FIRST_WAIT_MS = 5_000;
const MOST_WAIT_MS = 10 * 60_000;
/** Time without a failure after which the next one starts a new series (ms). */
const FORGET_MS = 15 * 60_000;
/** Maximum number of causes remembered of one failure: two alternating causes must not fill the log either. */
const CAUSES_MAX = 8;
const KEYS_MAX = 1_000;

/** Number of failures, and the time that they took. */
interface Series {
  readonly times: number;
  readonly seconds: number;
}

interface RepeatedFailure {
  readonly firstMs: number;
  readonly causes: Set<string>;
  times: number;
  lastMs: number;
  waitMs: number;
  nextMs: number;
}

/** Decides which of many failures of the same thing are logged: the first at once, then at growing intervals, and each new cause. */
export class Repeats {
  readonly #now: () => number;
  readonly #entries = new Map<string, RepeatedFailure>();

  /** Creates an empty history. @param now returns monotonic milliseconds */
  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /**
   * Notes a failure.
   *
   * @param key name of what fails
   * @param cause reason, as far as it is to be distinguished
   * @returns the series so far if this failure must be logged; its `times` is 1 for the first
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

  /** Notes a success. @returns the series that has ended; undefined if there was none */
  worked(key: string): Series | undefined {
    const known = this.#entries.get(key);
    if (known === undefined) return undefined;
    this.#entries.delete(key);
    return series(known, this.#now());
  }

  /** Adds a key. Beyond the limit, the oldest keys are dropped. */
  #remember(key: string, entry: RepeatedFailure): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    const [oldest] = this.#entries.keys();
    if (this.#entries.size > KEYS_MAX && oldest !== undefined) this.#entries.delete(oldest);
  }
}

function series({ times, firstMs }: RepeatedFailure, nowMs: number): Series {
  return { times, seconds: Math.round((nowMs - firstMs) / 1_000) };
}
