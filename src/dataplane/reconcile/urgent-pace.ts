import { setImmediate as nextTurn } from 'node:timers/promises';
import { idle } from '../../base/async/pause.ts';

/** Time after a pod's change during which more are expected (ms). */
const BUSY_MS = 1_000;

interface UrgentPaceOptions {
  /** Time for which urgent changes that closely follow others are gathered (ms); 0 if omitted. */
  readonly gatherMs?: number;
  /** Time after a round that has written, before the next one begins (ms); 0 if omitted. */
  readonly restMs?: number;
  readonly events: { urgent?(): void };
  readonly now: () => number;
}

/**
 * Schedule of rounds and urgent changes: a single urgent change is written at once; those that follow closely are written together, which
 * is less work for the target.
 */
export class UrgentPace {
  readonly #options: UrgentPaceOptions;
  #writtenMs = -Infinity;
  #roundMs = -Infinity;

  constructor(options: UrgentPaceOptions) {
    this.#options = options;
  }

  get #gatherMs(): number {
    return this.#options.gatherMs ?? 0;
  }

  /** Records that urgent changes were written. */
  written(): void {
    this.#writtenMs = this.#options.now();
    this.#options.events.urgent?.();
  }

  /** Records that a round has written, and ended. */
  roundWritten(): void {
    this.#roundMs = this.#options.now();
  }

  /** True if urgent changes were written a moment ago: more may follow. */
  get isBusy(): boolean {
    return this.#options.now() - this.#writtenMs < BUSY_MS;
  }

  /** Resolves when the gathering time is over or `signal` aborts. Never rejects. */
  async untilDue(signal: AbortSignal): Promise<void> {
    const leftMs = this.#writtenMs + this.#gatherMs - this.#options.now();
    if (leftMs > 0) await idle(leftMs, signal);
  }

  /**
   * Resolves when the next round may begin, or `signal` aborts; never rejects. Changes that arrived with the one that woke the reconciler
   * are handled together, after answers that are already available.
   */
  async untilRested(signal: AbortSignal): Promise<void> {
    const leftMs = this.#roundMs + (this.#options.restMs ?? 0) - this.#options.now();
    if (leftMs > 0) await idle(leftMs, signal);
    else if (this.#gatherMs > 0) await nextTurn();
  }
}
