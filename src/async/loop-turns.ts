import { setImmediate as nextLoopTurn } from 'node:timers/promises';

/**
 * Shares the event loop between long jobs: each works for at most `sliceMs`, then lets everything else run.
 *
 * One object for all jobs of a process. Jobs that are due take their turns one after another, each in a round of the loop of its
 * own; with a slice for each job by itself, five jobs would block the loop five times as long.
 */
export class LoopTurns {
  readonly #sliceMs: number;
  #sliceStartMs = performance.now();
  #queue: Promise<void> = Promise.resolve();

  constructor(sliceMs: number) {
    this.#sliceMs = sliceMs;
  }

  /** Whether the slice is used up; then `await` {@link next} before working on. */
  get due(): boolean {
    return performance.now() - this.#sliceStartMs >= this.#sliceMs;
  }

  /** Resolves at the start of a new slice that the caller has for itself. */
  async next(): Promise<void> {
    const turn = this.#queue.then(() => nextLoopTurn());
    this.#queue = turn;
    await turn;
    this.#sliceStartMs = performance.now();
  }
}
