/** Time after which a name that takes nothing is forgotten (ms). */
const idleMs = 10_000;
/** Maximum number of names. Further names get nothing until others are idle. */
const namesMax = 1_024;

interface ShareBucket {
  tokens: number;
  atMs: number;
}

interface FairSharesOptions {
  /** Rate of all names together. */
  readonly perSecond: number;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** Rate that is divided equally among the names that take from it: heavy use by one name does not reduce the share of another. */
export class FairShares {
  readonly #options: FairSharesOptions;
  readonly #buckets = new Map<string, ShareBucket>();
  #checkedMs = Number.NEGATIVE_INFINITY;

  constructor(options: FairSharesOptions) {
    this.#options = options;
  }

  /** Takes one unit. @returns false if the share of this name is used up */
  take(name: string): boolean {
    const nowMs = this.#options.now();
    this.#forgetIdle(nowMs);
    const share = () => this.#options.perSecond / this.#buckets.size;
    let bucket = this.#buckets.get(name);
    if (!bucket) {
      if (this.#buckets.size >= namesMax) return false;
      bucket = { tokens: 0, atMs: nowMs };
      this.#buckets.set(name, bucket);
      bucket.tokens = Math.max(1, share());
    }
    const [passed, most] = [(nowMs - bucket.atMs) / 1_000, Math.max(1, share())];
    bucket.tokens = Math.min(most, bucket.tokens + passed * share());
    bucket.atMs = nowMs;
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }

  #forgetIdle(nowMs: number): void {
    if (nowMs - this.#checkedMs < 1_000) return;
    this.#checkedMs = nowMs;
    for (const [name, { atMs }] of this.#buckets) if (nowMs - atMs > idleMs) this.#buckets.delete(name);
  }
}
