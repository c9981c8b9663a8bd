import type { Observe } from './record.ts';

const EVERY_MS = 100;
/** Time over which status reports the greatest lag. */
const WINDOW_MS = 60_000;

/** Samples the delay of timers: every job of the agent waits as long. */
export class LoopLag {
  #windowStartMs = 0;
  #current = 0;
  #before = 0;

  /** Starts sampling, until `signal` is aborted. */
  start(observe: Observe, signal: AbortSignal): void {
    let dueMs = performance.now() + EVERY_MS;
    this.#windowStartMs = dueMs;
    const timer = setInterval(() => {
      const nowMs = performance.now();
      const lagMs = Math.max(0, nowMs - dueMs);
      dueMs = nowMs + EVERY_MS;
      observe('event_loop_lag_seconds', {}, lagMs / 1_000);
      this.#note(nowMs, lagMs);
    }, EVERY_MS);
    timer.unref();
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Returns the greatest lag of the last one or two minutes. */
  get maxMs(): number {
    return Math.max(this.#current, this.#before);
  }

  #note(nowMs: number, lagMs: number): void {
    if (nowMs - this.#windowStartMs > WINDOW_MS) {
      this.#before = this.#current;
      this.#current = 0;
      this.#windowStartMs = nowMs;
    }
    this.#current = Math.max(this.#current, lagMs);
  }
}
