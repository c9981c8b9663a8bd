import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeJournal, encodeRecord, type JournalRecord } from './journal-records.ts';
import { LeaseTable } from './lease-table.ts';

/**
 * Why the next agent would not find in `bytes` what `snapshot` has; undefined if it would.
 *
 * @param snapshot all records that make the present state, `open` first
 */
export function journalFault(bytes: Uint8Array, snapshot: readonly JournalRecord[]): string | undefined {
  try {
    const { records, damaged } = decodeJournal(Buffer.from(bytes).toString('utf8'));
    if (records[0]?.op !== 'open' || damaged > 0) return 'it was damaged';
    return leasesOf(records) === leasesOf(snapshot) ? undefined : 'it did not lead to the leases that there are';
  } catch (thrown) {
    return `it could not be read: ${SeineError.from(thrown, 'read the journal').rawMessage}`;
  }
}

/** What the records lead to, as text. */
function leasesOf(records: readonly JournalRecord[]): string {
  const table = new LeaseTable();
  for (const record of records) table.replay(record);
  return table
    .all()
    .map((lease) => encodeRecord({ op: 'lease', lease }))
    .join('');
}
