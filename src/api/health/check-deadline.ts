/** What a busy machine may add to a look and to the wait before it (ms). */
const GRACE_MS = 2_000;

/** How a look is going. */
export interface LookRecord {
  readonly name: string;
  /** From the end of a look to the beginning of the next (ms). */
  readonly everyMs: number;
  /** The last one that was finished; undefined if none counts. */
  readonly last: { readonly ageMs: number; readonly tookMs: number } | undefined;
}

/**
 * A round of a look (ms): its rest, what two looks take, and two seconds. A look that is due and takes no longer than the last one is
 * finished within it: the age counts from the beginning, as what is changed behind the look's back is seen by the next one only.
 */
export function roundMs({ everyMs, last }: Pick<LookRecord, 'everyMs' | 'last'>): number {
  return everyMs + 2 * (last?.tookMs ?? 0) + GRACE_MS;
}

/** Whether everything was looked at within its last round. */
export function freshnessOf(record: LookRecord): 'fresh' | 'overdue' | 'not yet' {
  if (record.last === undefined) return 'not yet';
  return record.last.ageMs <= roundMs(record) ? 'fresh' : 'overdue';
}
