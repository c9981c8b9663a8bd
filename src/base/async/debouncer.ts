interface DebounceTimes {
  /** The quiet interval before a call. */
  readonly waitMs: number;
  /** The shortest interval between two calls; read at every ring. */
  readonly restMs: () => number;
}

/** Calls back once after the last of many rings, but not later than ten times the wait after the first, unless it has to pause. */
export class Debouncer {
  readonly #times: DebounceTimes;
  readonly #callback: () => void;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout | undefined;
  #firstMs = 0;
  #calledMs = -Infinity;

  constructor(times: DebounceTimes, callback: () => void, signal: AbortSignal) {
    this.#times = times;
    this.#callback = callback;
    this.#signal = signal;
    signal.addEventListener('abort', () => clearTimeout(this.#timer), { once: true });
  }

  ring(): void {
    if (this.#signal.aborted) return;
    const { waitMs, restMs } = this.#times;
    const nowMs = performance.now();
    if (this.#timer === undefined) this.#firstMs = nowMs;
    else clearTimeout(this.#timer);
    const quietMs = Math.min(nowMs + waitMs, this.#firstMs + 10 * waitMs);
    const dueMs = Math.max(quietMs, this.#calledMs + restMs());
    this.#timer = setTimeout(() => this.#call(), Math.max(0, dueMs - nowMs));
  }

  #call(): void {
    this.#timer = undefined;
    this.#calledMs = performance.now();
    this.#callback();
  }
}
