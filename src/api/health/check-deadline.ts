/** Margin for a busy host, added to the duration of a check and to the wait before it (ms). */
const GRACE_MS = 2_000;

/** Timing of a periodic check. */
export interface HealthCheckTiming {
  readonly name: string;
  /** Interval from the end of a check to the beginning of the next one (ms). */
  readonly everyMs: number;
  /** Last finished check; undefined if none counts. */
  readonly last: { readonly ageMs: number; readonly tookMs: number } | undefined;
}

/**
 * Returns the deadline of a check (ms): its interval, twice its duration, and two seconds. A check that is on time and takes no longer than
 * the last one is finished within it. The age counts from the beginning of a check, because a change after that is seen only by the next
 * one.
 */
export function roundMs({ everyMs, last }: Pick<HealthCheckTiming, 'everyMs' | 'last'>): number {
  return everyMs + 2 * (last?.tookMs ?? 0) + GRACE_MS;
}

/** Reports whether the last check is within its deadline. */
export function freshnessOf(record: HealthCheckTiming): 'fresh' | 'overdue' | 'not yet' {
  if (record.last === undefined) return 'not yet';
  return record.last.ageMs <= roundMs(record) ? 'fresh' : 'overdue';
}
