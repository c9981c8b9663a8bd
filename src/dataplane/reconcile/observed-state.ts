/** Observed state as of one round. */
export interface ObservedSnapshot<K, V> {
  /** Content of the target. The round updates it with what it writes. */
  readonly actual: Map<K, V>;
  /** Origin of `actual`: observed for this round, or remembered. If remembered, a refusal may only mean that it is out of date. */
  readonly source: 'observed' | 'remembered';
  /** Time of the first invalidation that this observation answers (ms). */
  readonly invalidatedAtMs: number | undefined;
  /** Numbers of invalidations and replacements when the round began. */
  readonly invalidations: number;
  readonly replacements: number;
}

/**
 * Last observed content of a target, and whether it can still be trusted.
 *
 * There are two kinds of invalidation. `replaced`: the target may be another one than before; this always counts. `recheck`: another
 * process may have changed single entries; this waits while repair is paused. After either, the next snapshot is observed.
 */
export class ObservedState<K, V> {
  readonly #now: () => number;
  readonly #onInvalidated: () => void;
  /** `undefined` if the content is unknown and must be observed. */
  #actual: Map<K, V> | undefined;
  /** Kept only to report foreign changes. */
  #lastTrusted: Map<K, V> | undefined;
  #invalidatedAtMs: number | undefined;
  #invalidations = 0;
  #replacements = 0;
  #paused = false;
  /** Set if `recheck` was called while repair was paused. */
  #postponed = false;
  #lastCheck: { readonly beganMs: number; readonly tookMs: number } | undefined;

  /**
   * @param now monotonic time (ms)
   * @param onInvalidated called when a new observation is due
   */
  constructor(now: () => number, onInvalidated: () => void) {
    this.#now = now;
    this.#onInvalidated = onInvalidated;
  }

  get actual(): Map<K, V> | undefined {
    return this.#actual;
  }

  get invalidations(): number {
    return this.#invalidations;
  }

  /** Age and duration of the last full check of the target (ms); undefined if there was none since it was last replaced. */
  get lastCheck(): { readonly ageMs: number; readonly tookMs: number } | undefined {
    if (this.#lastCheck === undefined) return undefined;
    const { beganMs, tookMs } = this.#lastCheck;
    return { ageMs: this.#now() - beganMs, tookMs };
  }

  /** Records a full check, made for a snapshot or outside the rounds. */
  looked(beganMs: number): void {
    this.#lastCheck = { beganMs, tookMs: this.#now() - beganMs };
  }

  /** Marks the content as unknown: the target was replaced. */
  replaced(): void {
    this.#lastCheck = undefined;
    this.#replacements++;
    this.invalidate();
  }

  /** Marks the content as possibly changed by another process. */
  recheck(): void {
    if (this.#paused) this.#postponed = true;
    else this.invalidate();
  }

  /** Postpones calls of `recheck` until `resume`. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (!this.#postponed) return;
    this.#postponed = false;
    this.invalidate();
  }

  /** Like `recheck`, even while paused. */
  invalidate(): void {
    this.#lastTrusted ??= this.#actual;
    this.#invalidatedAtMs ??= this.#now();
    this.#actual = undefined;
    this.#invalidations++;
    this.#onInvalidated();
  }

  /** Drops the content after a round that failed half-way: it is unknown, although no other process need have changed it. */
  forget(): void {
    this.#actual = undefined;
  }

  /** @param observe called only if the remembered state is not trusted; its errors are passed on */
  async snapshot(observe: () => Promise<Map<K, V>>): Promise<ObservedSnapshot<K, V>> {
    const counts = { invalidations: this.#invalidations, replacements: this.#replacements };
    if (this.#actual !== undefined) return { actual: this.#actual, source: 'remembered', invalidatedAtMs: undefined, ...counts };
    const beganMs = this.#now();
    const actual = await observe();
    if (this.#replacements === counts.replacements) this.looked(beganMs);
    const invalidatedAtMs = this.#invalidatedAtMs;
    this.#invalidatedAtMs = undefined;
    return { actual, source: 'observed', invalidatedAtMs: invalidatedAtMs, ...counts };
  }

  /**
   * Returns the state trusted before the invalidation that the newest snapshot answers, if there was one. Returned once: it may be as large
   * as the snapshot.
   */
  takeLastTrusted(): ReadonlyMap<K, V> | undefined {
    const lastTrusted = this.#lastTrusted;
    this.#lastTrusted = undefined;
    return lastTrusted;
  }

  /** Reports whether the target is still the one of this snapshot. If it was replaced, the snapshot does not describe the new one. */
  stillOf({ replacements }: ObservedSnapshot<K, V>): boolean {
    return this.#replacements === replacements;
  }

  /** Stores the result of a round. @returns false if the target was replaced meanwhile */
  keep(view: ObservedSnapshot<K, V>): boolean {
    if (!this.stillOf(view)) return false;
    if (this.#invalidations === view.invalidations) this.#actual = view.actual;
    else this.#lastTrusted = view.actual;
    return true;
  }
}
