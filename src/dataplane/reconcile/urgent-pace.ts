import { idle } from '../../base/async/pause.ts';

/** Time after a pod's change during which more are expected (ms). */
const BUSY_MS = 1_000;

interface UrgentPaceOptions {
  /** Time for which urgent changes that closely follow others are gathered (ms); 0 if omitted. */
  readonly gatherMs?: number;
  readonly now: () => number;
}

/**
 * Schedule of urgent changes: a single one is written at once; those that follow closely are written together, which is less work for the
 * target.
 */
export class UrgentPace {
  readonly #options: UrgentPaceOptions;
  #writtenMs = -Infinity;

  constructor(options: UrgentPaceOptions) {
    this.#options = options;
  }

  get gatherMs(): number {
    return this.#options.gatherMs ?? 0;
  }

  /** Records that urgent changes were written. */
  written(): void {
    this.#writtenMs = this.#options.now();
  }

  /** True if urgent changes were written a moment ago: more may follow. */
  get isBusy(): boolean {
    return this.#options.now() - this.#writtenMs < BUSY_MS;
  }

  /** Resolves when the gathering time is over or `signal` aborts. Never rejects. */
  async untilDue(signal: AbortSignal): Promise<void> {
    const leftMs = this.#writtenMs + this.gatherMs - this.#options.now();
    if (leftMs > 0) await idle(leftMs, signal);
  }
}
