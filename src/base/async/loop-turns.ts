import { setImmediate as nextLoopTurn } from 'node:timers/promises';

/**
 * Shares the event loop between long jobs: each works for at most `sliceMs`, then lets other work run.
 *
 * One object serves all jobs of a process. Jobs that are due take their turns one after another, each in its own round of the event loop.
 * With a slice for each job by itself, five jobs would block the event loop five times as long.
 */
export class LoopTurns {
  readonly #sliceMs: number;
  readonly #shortMs: number;
  #waitedFor = 0;
  #sliceStartMs = performance.now();
  #queue: Promise<void> = Promise.resolve();

  /**
   * Creates the turns.
   *
   * @param sliceMs time for which a job works without a break
   * @param shortMs the same while a caller waits, see {@link during}
   */
  constructor(sliceMs: number, shortMs = sliceMs) {
    this.#sliceMs = sliceMs;
    this.#shortMs = shortMs;
  }

  /** Reports whether the slice is used up; then `await` {@link next} before continuing. */
  get due(): boolean {
    return performance.now() - this.#sliceStartMs >= (this.#waitedFor > 0 ? this.#shortMs : this.#sliceMs);
  }

  /**
   * Shortens slices during `work`, which computes little but needs the event loop many times, for example for replies: it waits for a slice
   * each time.
   */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#waitedFor++;
    try {
      return await work;
    } finally {
      this.#waitedFor--;
    }
  }

  /** Resolves at the start of a new slice that belongs to the caller alone. */
  async next(): Promise<void> {
    const turn = this.#queue.then(() => nextLoopTurn());
    this.#queue = turn;
    await turn;
    this.#sliceStartMs = performance.now();
  }
}
