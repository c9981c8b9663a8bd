import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeJournal, encodeRecord, type JournalRecord } from './journal-records.ts';
import { LeaseTable } from './lease-table.ts';

/**
 * Returns how `bytes` differ from `snapshot`; undefined if they result in the same leases.
 *
 * @param snapshot all records of the present state, `open` first
 */
export function journalFault(bytes: Uint8Array, snapshot: readonly JournalRecord[]): string | undefined {
  try {
    const { records, damaged } = decodeJournal(Buffer.from(bytes).toString('utf8'));
    if (records[0]?.op !== 'open' || damaged > 0) return 'it was damaged';
    return leasesOf(records) === leasesOf(snapshot) ? undefined : 'it does not match the current leases';
  } catch (thrown) {
    return `it could not be read: ${SeineError.from(thrown, 'read the journal').rawMessage}`;
  }
}

/** Text of the leases that result from the records. */
function leasesOf(records: readonly JournalRecord[]): string {
  const table = new LeaseTable();
  for (const record of records) table.replay(record);
  return table
    .all()
    .map((lease) => encodeRecord({ op: 'lease', lease }))
    .join('');
}
