import { setImmediate as nextLoopTurn } from 'node:timers/promises';

/**
 * Shares the event loop between long jobs: each works for at most `sliceMs`, then lets everything else run.
 *
 * One object for all jobs of a process. Jobs that are due take their turns one after another, each in a round of the loop of its
 * own; with a slice for each job by itself, five jobs would block the loop five times as long.
 */
export class LoopTurns {
  readonly #sliceMs: number;
  readonly #shortMs: number;
  #waitedFor = 0;
  #sliceStartMs = performance.now();
  #queue: Promise<void> = Promise.resolve();

  /**
   * @param sliceMs how long a job works at a stretch
   * @param shortMs the same while a caller waits, see {@link during}
   */
  constructor(sliceMs: number, shortMs = sliceMs) {
    this.#sliceMs = sliceMs;
    this.#shortMs = shortMs;
  }

  /** Whether the slice is used up; then `await` {@link next} before working on. */
  get due(): boolean {
    return performance.now() - this.#sliceStartMs >= (this.#waitedFor > 0 ? this.#shortMs : this.#sliceMs);
  }

  /**
   * Slices are short during `work`, which computes little but needs the loop many times, e.g. for answers: it
   * waits for a slice each time.
   */
  async during<T>(work: Promise<T>): Promise<T> {
    this.#waitedFor++;
    try {
      return await work;
    } finally {
      this.#waitedFor--;
    }
  }

  /** Resolves at the start of a new slice that the caller has for itself. */
  async next(): Promise<void> {
    const turn = this.#queue.then(() => nextLoopTurn());
    this.#queue = turn;
    await turn;
    this.#sliceStartMs = performance.now();
  }
}
