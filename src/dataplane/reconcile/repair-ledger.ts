/** Number of consecutive repairs of one key that are made without delay. */
const FREE_REPAIRS = 5;
/** Interval without a foreign change that takes one repair off the count (ms): occasional changes are repaired at once. */
const DECAY_MS = 10_000;
const FIRST_WAIT_MS = 1_000;
const MOST_WAIT_MS = 60_000;
/** Maximum number of keys changed at once that are tracked: more indicate a restart or a wipe, not a contest over single keys. */
const MOST_KEYS = 1_000;

interface RepairCount {
  repairs: number;
  lastMs: number;
  nextMs: number;
}

/** Counts foreign changes by key, and slows down the repair of keys that are changed repeatedly. */
export class RepairLedger<K> {
  readonly #now: () => number;
  readonly #entries = new Map<K, RepairCount>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param known number of entries before; if most of them changed at once, the target was restarted */
  note(keys: readonly K[], known: number): void {
    const nowMs = this.#now();
    this.#forget(nowMs);
    if (keys.length > MOST_KEYS || keys.length * 2 > Math.max(known, 8)) return;
    for (const key of keys) {
      const repairs = this.#counted(key, nowMs) + 1;
      const waitMs = repairs <= FREE_REPAIRS ? 0 : Math.min(MOST_WAIT_MS, FIRST_WAIT_MS * 2 ** (repairs - FREE_REPAIRS - 1));
      if (this.#entries.size < MOST_KEYS || this.#entries.has(key))
        this.#entries.set(key, { repairs, lastMs: nowMs, nextMs: nowMs + waitMs });
    }
  }

  /** Returns the remaining count of a key, reduced by the time since its repair was due. */
  #counted(key: K, nowMs: number): number {
    const entry = this.#entries.get(key);
    if (entry === undefined) return 0;
    const quietMs = Math.max(0, nowMs - Math.max(entry.lastMs, entry.nextMs));
    return Math.max(0, entry.repairs - Math.floor(quietMs / DECAY_MS));
  }

  #forget(nowMs: number): void {
    for (const key of this.#entries.keys()) if (this.#counted(key, nowMs) === 0) this.#entries.delete(key);
  }

  /** Discards the history of an entry whose desired value changed. */
  clear(key: K): void {
    this.#entries.delete(key);
  }

  isBackedOff(key: K, nowMs: number): boolean {
    return (this.#entries.get(key)?.nextMs ?? 0) > nowMs;
  }

  contested(): ReadonlyMap<K, { readonly repairs: number; readonly nextMs: number }> {
    const nowMs = this.#now();
    return new Map([...this.#entries].filter(([key]) => this.#counted(key, nowMs) > FREE_REPAIRS));
  }

  /** Time when the first delayed key may be repaired again. */
  nextMs(): number | undefined {
    const nowMs = this.#now();
    const waiting = [...this.#entries.values()].map((entry) => entry.nextMs).filter((nextMs) => nextMs > nowMs);
    return waiting.length === 0 ? undefined : Math.min(...waiting);
  }
}
