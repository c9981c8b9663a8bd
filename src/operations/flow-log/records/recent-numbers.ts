/** Numbers by key, each for a limited time; the oldest leave first. */
export class RecentNumbers {
  readonly #numbers = new Map<string, { readonly number: number; readonly sinceMs: number }>();
  readonly #options: RecentNumbersOptions;

  constructor(options: RecentNumbersOptions) {
    this.#options = options;
  }

  /** Returns the number of a key; undefined once its time is over. */
  of(key: string): number | undefined {
    const recent = this.#numbers.get(key);
    return recent && this.#options.nowMs() - recent.sinceMs < this.#options.keptMs ? recent.number : undefined;
  }

  add(key: string, number: number): void {
    this.#numbers.delete(key);
    this.#numbers.set(key, { number, sinceMs: this.#options.nowMs() });
    const [oldest] = this.#numbers.keys();
    if (oldest !== undefined && this.#numbers.size > this.#options.max) this.#numbers.delete(oldest);
  }
}

interface RecentNumbersOptions {
  readonly keptMs: number;
  /** Maximum number of keys. */
  readonly max: number;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly nowMs: () => number;
}
