/** Calls back once after the last of many rings, but not later than ten times the wait after the first. */
export class Quiet {
  readonly #waitMs: number;
  readonly #callback: () => void;
  readonly #signal: AbortSignal;
  #timer: NodeJS.Timeout | undefined;
  #firstMs = 0;

  constructor(waitMs: number, callback: () => void, signal: AbortSignal) {
    this.#waitMs = waitMs;
    this.#callback = callback;
    this.#signal = signal;
    signal.addEventListener('abort', () => clearTimeout(this.#timer), { once: true });
  }

  ring(): void {
    if (this.#signal.aborted) return;
    const nowMs = performance.now();
    if (this.#timer === undefined) this.#firstMs = nowMs;
    else if (nowMs - this.#firstMs > 10 * this.#waitMs) return;
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#callback();
    }, this.#waitMs);
  }
}
