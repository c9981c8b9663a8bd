import { idle } from '../../base/async/pause.ts';

/** Pods come for a while if one has come (ms). */
const BUSY_MS = 1_000;

interface UrgentPaceOptions {
  /** How long urgent changes are gathered that come behind others (ms); 0 if left out. */
  readonly gatherMs?: number;
  readonly now: () => number;
}

/** When urgent changes are written: one alone at once; those that come right behind others together, which is less work for the target than one by one. */
export class UrgentPace {
  readonly #options: UrgentPaceOptions;
  #writtenMs = -Infinity;

  constructor(options: UrgentPaceOptions) {
    this.#options = options;
  }

  get gatherMs(): number {
    return this.#options.gatherMs ?? 0;
  }

  /** Some were. */
  written(): void {
    this.#writtenMs = this.#options.now();
  }

  /** Some were a moment ago: more may be on their way. */
  get isBusy(): boolean {
    return this.#options.now() - this.#writtenMs < BUSY_MS;
  }

  /** Or until `signal` aborts, if that is sooner. Never rejects. */
  async untilDue(signal: AbortSignal): Promise<void> {
    const leftMs = this.#writtenMs + this.gatherMs - this.#options.now();
    if (leftMs > 0) await idle(leftMs, signal);
  }
}
