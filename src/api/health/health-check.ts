import type { FoundProblem } from '../problem.ts';

/** Result of a check. */
export interface HealthCheckResult {
  /** All current problems, including those of the last check. */
  readonly problems: readonly FoundProblem[];
  /** Repairs made by this check, one sentence each. */
  readonly repaired?: readonly string[];
}

/** Check of everything of one kind, to be run periodically, independent of events. */
export interface HealthCheck {
  /** Unique short name, for status, metrics and log. */
  readonly name: string;
  /** Interval from the end of a check to the beginning of the next one (ms). */
  readonly everyMs: number;
  /** Registers a function that begins the next check at once, for a setting that changes during a long interval. */
  readonly onChange?: (checkNow: () => void) => void;
  /**
   * Checks, and repairs what it may.
   *
   * @throws SeineError if the check is not possible: the result of the last check stands until the next one
   */
  run(signal: AbortSignal): Promise<HealthCheckResult>;
}
