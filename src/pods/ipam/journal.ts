import { SeineError } from '../../base/errors/seine-error.ts';
import { journalFault } from './journal-fault.ts';
import { encodeRecord, type JournalRecord } from './journal-records.ts';
import type { JournalStore } from './journal-store.ts';

/** Appended bytes from which the file is rewritten: at least this, and four times the size of the last rewrite. */
const compactionBytesMin = 256 * 1024;

/** Number of attempts to read a file that is being written. */
const READ_ATTEMPTS = 10;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

/** Result of writing a record. */
export interface Written {
  /**
   * Resolves once the record survives a crash of the host. Rejects with `UNAVAILABLE` if that fails; the record may be in the file anyway.
   */
  readonly durable: Promise<void>;
}

/**
 * Makes records durable, many at a time. Each record is written to the kernel at once, where it survives this process. One sync of the disk
 * runs at a time, and all records that arrive meanwhile share the next one, so that sixty-four concurrent ADDs need only a few.
 *
 * After a failed write or sync the content of the file is unknown. The next write is then a full rewrite from memory, which also removes
 * anything left by the failed one. A full disk or a read-only file system thus recovers by itself once it can be written again.
 */
export class Journal {
  readonly #store: JournalStore;
  readonly #snapshot: () => readonly JournalRecord[];
  /** Records that arrived during a replacement, to be appended to the new file. */
  #lines: string[] = [];
  #waiters: Waiter[] = [];
  #draining: Promise<void> | undefined;
  /** True if the file cannot be appended to: it was never begun, or a write failed. */
  #rewrite = true;
  /** True while the file is being replaced: what is appended to it now is lost. */
  #replacing = false;
  #appended = 0;
  #compactAt = compactionBytesMin;
  #failure: SeineError | undefined;
  /** Number of records and rewrites. */
  #written = 0;

  /** Creates a journal. @param snapshot returns all records of the present state, `open` first; called before a rewrite */
  constructor(store: JournalStore, snapshot: () => readonly JournalRecord[]) {
    this.#store = store;
    this.#snapshot = snapshot;
  }

  /** Error of the last write; undefined if it succeeded. */
  get failure(): SeineError | undefined {
    return this.#failure;
  }

  /**
   * Resolves once the record survives the death of this process, which is at once as long as the disk can be written. The caller's state
   * must contain the record already.
   *
   * @throws SeineError `UNAVAILABLE` if it cannot be written; it may be in the file anyway until the next rewrite
   */
  async write(record: JournalRecord): Promise<Written> {
    const durable = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    durable.catch(() => undefined); // callers that wait get the rejection
    this.keep(record);
    this.#begin();
    if (this.#rewrite || this.#replacing) await durable;
    return { durable };
  }

  /**
   * Writes a record without waiting: once `handedOver` resolves, it survives the death of this process, but not necessarily a crash of the
   * host. A failure loses nothing: the next rewrite has the resulting state.
   */
  keep(record: JournalRecord): void {
    this.#written++;
    const line = encodeRecord(record);
    if (this.#replacing) this.#lines.push(line);
    else if (this.#rewrite || !this.#append(line)) this.#begin();
  }

  /** Resolves once all records of `keep` have left this process, or cannot be written. */
  async handedOver(): Promise<void> {
    if (this.#rewrite || this.#replacing) await this.#draining;
  }

  /** Reports whether the next agent would find what was written. */
  get isInPlace(): boolean {
    return this.#failure === undefined && this.#store.isInPlace();
  }

  /** Tries to write the file from the present state. @throws SeineError `UNAVAILABLE` */
  async rewrite(): Promise<void> {
    this.#rewrite = true;
    this.#written++;
    const durable = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    this.#begin();
    await durable;
  }

  /**
   * Reads the file back, and writes it again if it differs from the state in memory. If it cannot be written, `failure` has the error.
   *
   * @returns reason for writing it again; undefined if that was not needed, or failed
   * @throws SeineError `UNAVAILABLE` if it cannot be compared now
   */
  async check(): Promise<string | undefined> {
    const fault = this.isInPlace ? await this.#faultOfFile() : 'it was missing, or another file';
    if (fault === undefined) return undefined;
    await this.rewrite().catch(() => undefined); // `failure` has it
    return this.#failure === undefined ? fault : undefined;
  }

  /** Compares the file with the state. Only a file read while nothing is being written must match it. */
  async #faultOfFile(): Promise<string | undefined> {
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
      await this.#draining;
      const before = this.#written;
      const bytes = await this.#store.load();
      if (this.#written === before && this.#draining === undefined) return journalFault(bytes, this.#snapshot());
    }
    throw new SeineError('UNAVAILABLE', 'the IPAM journal is written to without a pause');
  }

  /** Waits for writes in progress; no further ones are allowed. */
  async close(): Promise<void> {
    await this.#draining;
    await this.#store.close();
  }

  #begin(): void {
    this.#draining ??= this.#drain();
  }

  async #drain(): Promise<void> {
    // Waits for one microtask, so that calls of the same tick share one sync.
    await Promise.resolve();
    let failed: boolean;
    do {
      const waiters = this.#waiters;
      this.#waiters = [];
      failed = false;
      try {
        await this.#settle();
        if (!this.#rewrite) this.#failure = undefined;
        for (const { resolve } of waiters) resolve();
      } catch (thrown) {
        failed = true;
        const failure = this.#fail(thrown);
        for (const { reject } of waiters) reject(failure);
      }
    } while (this.#lines.length > 0 || this.#waiters.length > 0 || (this.#rewrite && !failed));
    this.#draining = undefined;
  }

  /** Makes all written records durable. If the file was replaced or removed, the whole state is written to the present one. */
  async #settle(): Promise<void> {
    const lines = this.#lines.splice(0).join('');
    if (!this.#rewrite && this.#appended <= this.#compactAt && (lines === '' || this.#append(lines))) return await this.#store.sync();
    const bytes = Buffer.from(this.#snapshot().map(encodeRecord).join(''));
    this.#replacing = true;
    try {
      await this.#store.replace(bytes);
    } finally {
      this.#replacing = false;
    }
    this.#rewrite = false;
    this.#appended = 0;
    this.#compactAt = Math.max(compactionBytesMin, 4 * bytes.length);
  }

  /** Appends lines. @returns true if the next agent would find them if this process died now; if false, only a rewrite helps */
  #append(lines: string): boolean {
    try {
      const bytes = Buffer.from(lines);
      this.#store.append(bytes);
      this.#appended += bytes.length;
      this.#rewrite = !this.#store.isInPlace();
    } catch (thrown) {
      this.#fail(thrown);
    }
    return !this.#rewrite;
  }

  #fail(thrown: unknown): SeineError {
    this.#rewrite = true;
    this.#failure = new SeineError('UNAVAILABLE', 'the IPAM journal cannot be written', { cause: thrown });
    return this.#failure;
  }
}
