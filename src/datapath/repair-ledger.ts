/** So many repairs of one key, one after the other, are put down to chance. */
const FREE_REPAIRS = 5;
/** Each stretch of quiet this long takes one repair off the count: what is changed now and then is no fight, and is put back at once. */
const FORGIVEN_MS = 10_000;
const FIRST_WAIT_MS = 1_000;
const MOST_WAIT_MS = 60_000;
/** More keys than this are not followed one by one: that is a restart or a wipe, not a fight. */
const MOST_KEYS = 1_000;

interface Entry {
  repairs: number;
  lastMs: number;
  nextMs: number;
}

/** Remembers which entries somebody else keeps changing, and slows down our side of the fight. */
export class RepairLedger<K> {
  readonly #now: () => number;
  readonly #entries = new Map<K, Entry>();

  constructor(now: () => number) {
    this.#now = now;
  }

  /** @param known how many entries there were; when most of them changed at once, the target was restarted */
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

  /** What is left of a key's count: time since its repair was due has taken from it. */
  #counted(key: K, nowMs: number): number {
    const entry = this.#entries.get(key);
    if (entry === undefined) return 0;
    const quietMs = Math.max(0, nowMs - Math.max(entry.lastMs, entry.nextMs));
    return Math.max(0, entry.repairs - Math.floor(quietMs / FORGIVEN_MS));
  }

  #forget(nowMs: number): void {
    for (const key of this.#entries.keys()) if (this.#counted(key, nowMs) === 0) this.#entries.delete(key);
  }

  /** Something else is wanted of this entry now: whatever was fought over is history. */
  forgive(key: K): void {
    this.#entries.delete(key);
  }

  mustWait(key: K, nowMs: number): boolean {
    return (this.#entries.get(key)?.nextMs ?? 0) > nowMs;
  }

  contested(): ReadonlyMap<K, { readonly repairs: number; readonly nextMs: number }> {
    const nowMs = this.#now();
    return new Map([...this.#entries].filter(([key]) => this.#counted(key, nowMs) > FREE_REPAIRS));
  }

  /** When the first waiting key may be repaired again. */
  nextMs(): number | undefined {
    const nowMs = this.#now();
    const waiting = [...this.#entries.values()].map((entry) => entry.nextMs).filter((nextMs) => nextMs > nowMs);
    return waiting.length === 0 ? undefined : Math.min(...waiting);
  }
}
