import type { FoundProblem } from '../problem.ts';

/** What a look found. */
export interface LookResult {
  /** All that is wrong now, also what was wrong at the last look. */
  readonly problems: readonly FoundProblem[];
  /** What was wrong and is not any more, as this look mended it: a sentence each. */
  readonly repaired?: readonly string[];
}

/** A look at everything of one kind, to be taken from time to time whether or not events said anything. */
export interface Look {
  /** Unique, short; in status, metrics and log. */
  readonly name: string;
  /** From the end of a look to the beginning of the next (ms). */
  readonly everyMs: number;
  /**
   * Looks, and mends what it may.
   *
   * @throws SeineError if it cannot look: what the last look found stands until the next
   */
  look(signal: AbortSignal): Promise<LookResult>;
}
