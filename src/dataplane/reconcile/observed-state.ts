/** The observed state as one round has it. */
export interface ObservedSnapshot<K, V> {
  /** What the target holds. The round keeps it up to date with what it writes. */
  readonly actual: Map<K, V>;
  /** Whether it was observed for this round; if not, a refusal may only mean that it is out of date. */
  readonly source: 'observed' | 'remembered';
  /** Time of the first invalidation that this observation answers (ms). */
  readonly invalidatedAtMs: number | undefined;
  /** Counts of invalidations and replacements when the round began. */
  readonly invalidations: number;
  readonly replacements: number;
}

/**
 * What a target was last seen to hold, and whether that can still be trusted.
 *
 * Two kinds of invalidation: the target may be another one than before (`replaced`), which always counts; or another process may have
 * changed single entries (`recheck`), which waits while repair is paused. Either way the next snapshot is observed.
 */
export class ObservedState<K, V> {
  readonly #now: () => number;
  readonly #onInvalidated: () => void;
  /** `undefined` when it is not known and must be observed. */
  #actual: Map<K, V> | undefined;
  /** Only to report foreign changes. */
  #lastTrusted: Map<K, V> | undefined;
  #invalidatedAtMs: number | undefined;
  #invalidations = 0;
  #replacements = 0;
  #paused = false;
  /** `recheck` was called while repair was paused. */
  #postponed = false;
  #lastLook: { readonly beganMs: number; readonly tookMs: number } | undefined;

  /**
   * @param now milliseconds, from any fixed moment
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

  /** The last time when everything that the target holds was looked at, if that was since it was last replaced (ms). */
  get lastLook(): { readonly ageMs: number; readonly tookMs: number } | undefined {
    if (this.#lastLook === undefined) return undefined;
    const { beganMs, tookMs } = this.#lastLook;
    return { ageMs: this.#now() - beganMs, tookMs };
  }

  /** Everything was looked at, for a snapshot or beside one. */
  looked(beganMs: number): void {
    this.#lastLook = { beganMs, tookMs: this.#now() - beganMs };
  }

  /** The target may hold anything now. */
  replaced(): void {
    this.#lastLook = undefined;
    this.#replacements++;
    this.invalidate();
  }

  /** Another process may have changed single entries. */
  recheck(): void {
    if (this.#paused) this.#postponed = true;
    else this.invalidate();
  }

  /** Until `resume`, calls of `recheck` wait. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (!this.#postponed) return;
    this.#postponed = false;
    this.invalidate();
  }

  /** As `recheck`, paused or not. */
  invalidate(): void {
    this.#lastTrusted ??= this.#actual;
    this.#invalidatedAtMs ??= this.#now();
    this.#actual = undefined;
    this.#invalidations++;
    this.#onInvalidated();
  }

  /** A round failed half-way: what the target holds is unknown, though no other process need have changed it. */
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

  /** The state trusted before the invalidation that the newest snapshot answers, if there was one. Given once: it may be as large as the snapshot. */
  takeLastTrusted(): ReadonlyMap<K, V> | undefined {
    const lastTrusted = this.#lastTrusted;
    this.#lastTrusted = undefined;
    return lastTrusted;
  }

  /** False if the target was replaced since this snapshot was taken: then it says nothing about the new one. */
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
