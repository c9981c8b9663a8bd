/** The picture as one round has it. */
export interface View<K, V> {
  /** What the target holds. The round keeps it up to date with what it writes. */
  readonly actual: Map<K, V>;
  /** Whether it was looked at for this round; if not, a refusal may only say that it is wrong. */
  readonly source: 'observed' | 'remembered';
  /** When the doubt began that this look answers (ms). */
  readonly doubtedAtMs: number | undefined;
  /** How many doubts there had been, and how many replacements, when the round began. */
  readonly doubts: number;
  readonly replacements: number;
}

/**
 * What a target is believed to hold, and how far that may be trusted.
 *
 * Two kinds of doubt: the target may be another one than before (`replaced`), which nothing outweighs; or somebody else may have
 * changed single entries (`suspect`), which waits while it is paused. Either way the next view is observed.
 */
export class Picture<K, V> {
  readonly #now: () => number;
  readonly #doubted: () => void;
  /** `undefined` when it is not known and must be observed. */
  #actual: Map<K, V> | undefined;
  /** Only to say what somebody else changed. */
  #believed: Map<K, V> | undefined;
  #doubtedAtMs: number | undefined;
  #doubts = 0;
  #replacements = 0;
  #paused = false;
  /** Somebody was suspicious while it was paused. */
  #postponed = false;

  /**
   * @param now milliseconds, from any fixed moment
   * @param doubted called when there is something new to look at
   */
  constructor(now: () => number, doubted: () => void) {
    this.#now = now;
    this.#doubted = doubted;
  }

  get actual(): Map<K, V> | undefined {
    return this.#actual;
  }

  get doubts(): number {
    return this.#doubts;
  }

  /** The target may hold anything now. */
  replaced(): void {
    this.#replacements++;
    this.doubt();
  }

  /** Somebody else may have changed single entries. */
  suspect(): void {
    if (this.#paused) this.#postponed = true;
    else this.doubt();
  }

  /** Until `resume` no suspicion counts. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    if (!this.#postponed) return;
    this.#postponed = false;
    this.doubt();
  }

  /** As `suspect`, paused or not. */
  doubt(): void {
    this.#believed ??= this.#actual;
    this.#doubtedAtMs ??= this.#now();
    this.#actual = undefined;
    this.#doubts++;
    this.#doubted();
  }

  /** A round failed half-way: nobody knows what the target holds, but nobody else need have changed it. */
  forget(): void {
    this.#actual = undefined;
  }

  /** @param observe is asked only if what is remembered is not to be trusted; what it throws is thrown */
  async view(observe: () => Promise<Map<K, V>>): Promise<View<K, V>> {
    const counts = { doubts: this.#doubts, replacements: this.#replacements };
    if (this.#actual !== undefined) return { actual: this.#actual, source: 'remembered', doubtedAtMs: undefined, ...counts };
    const actual = await observe();
    const doubtedAtMs = this.#doubtedAtMs;
    this.#doubtedAtMs = undefined;
    return { actual, source: 'observed', doubtedAtMs, ...counts };
  }

  /** What was believed before the doubt that the newest view answers, if there was one. Given once: it may be as large as the view. */
  takeBelieved(): ReadonlyMap<K, V> | undefined {
    const believed = this.#believed;
    this.#believed = undefined;
    return believed;
  }

  /** False if the target was replaced since this view was taken: then it says nothing about the new one. */
  stillOf({ replacements }: View<K, V>): boolean {
    return this.#replacements === replacements;
  }

  /** A round is over, and this is what it left. @returns false if the target was replaced meanwhile */
  keep(view: View<K, V>): boolean {
    if (!this.stillOf(view)) return false;
    if (this.#doubts === view.doubts) this.#actual = view.actual;
    else this.#believed = view.actual;
    return true;
  }
}
