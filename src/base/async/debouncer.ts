interface DebounceTimes {
  /** Quiet interval before a call (ms). */
  readonly waitMs: number;
  /** Returns the shortest interval between two calls (ms); called at every ring. */
  readonly restMs: () => number;
}

/**
 * Calls back once after the last of many rings, at the latest ten times the wait after the first one, unless the shortest interval requires
 * a later call. That interval does not delay urgent rings.
 */
export class Debouncer {
  readonly #times: DebounceTimes;
  readonly #callback: () => void;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout | undefined;
  #firstMs = 0;
  #calledMs = -Infinity;
  /** Set if a ring since the last call was urgent. */
  #isUrgent = false;

  constructor(times: DebounceTimes, callback: () => void, signal: AbortSignal) {
    this.#times = times;
    this.#callback = callback;
    this.#signal = signal;
    signal.addEventListener('abort', () => clearTimeout(this.#timer), { once: true });
  }

  ring(urgency: 'usual' | 'urgent' = 'usual'): void {
    if (this.#signal.aborted) return;
    if (urgency === 'urgent') this.#isUrgent = true;
    const { waitMs, restMs } = this.#times;
    const nowMs = performance.now();
    if (this.#timer === undefined) this.#firstMs = nowMs;
    else clearTimeout(this.#timer);
    const quietMs = Math.min(nowMs + waitMs, this.#firstMs + 10 * waitMs);
    const dueMs = this.#isUrgent ? quietMs : Math.max(quietMs, this.#calledMs + restMs());
    this.#timer = setTimeout(() => this.#call(), Math.max(0, dueMs - nowMs));
  }

  #call(): void {
    this.#timer = undefined;
    this.#isUrgent = false;
    this.#calledMs = performance.now();
    this.#callback();
  }
}
