import { SeineError } from '../../base/errors/seine-error.ts';
import { journalFault } from './journal-fault.ts';
import { encodeRecord, type JournalRecord } from './journal-records.ts';
import type { JournalStore } from './journal-store.ts';

/** Rewritten when what was appended exceeds this and four times the last rewrite. */
const compactionBytesMin = 256 * 1024;

/** How often a file that was written to meanwhile is read again. */
const READ_ATTEMPTS = 10;

interface Waiter {
  readonly resolve: () => void;
  readonly reject: (cause: unknown) => void;
}

/** Of a record that was written. */
export interface Written {
  /** Resolves once it is there after the death of the machine. Rejects with `UNAVAILABLE` if that cannot be; it may be in the file all the same. */
  readonly durable: Promise<void>;
}

/**
 * Makes records durable, many at a time: each is given to the kernel at once, where it survives this process; one sync of the disk is under
 * way at a time, and all that arrive meanwhile share the next, so that sixty-four concurrent ADDs share a few.
 *
 * After a failed write or sync it is not known what the file holds. The next one is then a full rewrite from memory, which also drops
 * whatever a failed one left behind; so a full disk or a read-only file system heals by itself once it can be written again.
 */
export class Journal {
  readonly #store: JournalStore;
  readonly #snapshot: () => readonly JournalRecord[];
  /** What came while the file was being replaced: it is to be appended to the new one. */
  #lines: string[] = [];
  #waiters: Waiter[] = [];
  #draining: Promise<void> | undefined;
  /** The file cannot be appended to: it was never begun, or a write failed. */
  #rewrite = true;
  /** The file is being replaced: what is appended to it now is lost. */
  #replacing = false;
  #appended = 0;
  #compactAt = compactionBytesMin;
  #failure: SeineError | undefined;
  /** Counts records and rewrites. */
  #written = 0;

  /** @param snapshot all records that make the present state, `open` first. Called before a rewrite. */
  constructor(store: JournalStore, snapshot: () => readonly JournalRecord[]) {
    this.#store = store;
    this.#snapshot = snapshot;
  }

  /** Why the last write failed; undefined if it did not. */
  get failure(): SeineError | undefined {
    return this.#failure;
  }

  /**
   * Resolves once the record survives the death of this process, which is at once as long as the disk can be written. The caller's state must
   * hold the record already.
   *
   * @throws SeineError `UNAVAILABLE` if it cannot be written; it may be in the file all the same until the next rewrite
   */
  async write(record: JournalRecord): Promise<Written> {
    const durable = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    durable.catch(() => undefined); // whoever waits is told
    this.keep(record);
    this.#begin();
    if (this.#rewrite || this.#replacing) await durable;
    return { durable };
  }

  /**
   * Begins at once and does not wait: once `handedOver` resolves, the record survives the death of this process. It need not survive the
   * machine's. A failure is not lost: the next rewrite has the state the record led to.
   */
  keep(record: JournalRecord): void {
    this.#written++;
    const line = encodeRecord(record);
    if (this.#replacing) this.#lines.push(line);
    else if (this.#rewrite || !this.#append(line)) this.#begin();
  }

  /** Resolves once everything `keep` was given is out of this process, or cannot be written. */
  async handedOver(): Promise<void> {
    if (this.#rewrite || this.#replacing) await this.#draining;
  }

  /** Whether the next agent would find what was written. */
  get isInPlace(): boolean {
    return this.#failure === undefined && this.#store.isInPlace();
  }

  /** Tries to bring the file in line with the state. @throws SeineError `UNAVAILABLE` */
  async rewrite(): Promise<void> {
    this.#rewrite = true;
    this.#written++;
    const durable = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    this.#begin();
    await durable;
  }

  /**
   * Reads the file back, and writes it again if the next agent would not find there what this one has in memory. What cannot be written is
   * in `failure`.
   *
   * @returns why it had to be written again; undefined if it had not, or cannot be
   * @throws SeineError `UNAVAILABLE` if it cannot be compared now
   */
  async check(): Promise<string | undefined> {
    const fault = this.isInPlace ? await this.#faultOfFile() : 'it was gone, or another file';
    if (fault === undefined) return undefined;
    await this.rewrite().catch(() => undefined); // it is in `failure`
    return this.#failure === undefined ? fault : undefined;
  }

  /** Only what is read while nothing is being written must lead to the state of that moment. */
  async #faultOfFile(): Promise<string | undefined> {
    for (let attempt = 0; attempt < READ_ATTEMPTS; attempt++) {
      await this.#draining;
      const before = this.#written;
      const bytes = await this.#store.load();
      if (this.#written === before && this.#draining === undefined) return journalFault(bytes, this.#snapshot());
    }
    throw new SeineError('UNAVAILABLE', 'the IPAM journal is written to without a pause');
  }

  /** Waits for writes under way; then no more may come. */
  async close(): Promise<void> {
    await this.#draining;
    await this.#store.close();
  }

  #begin(): void {
    this.#draining ??= this.#drain();
  }

  async #drain(): Promise<void> {
    // A turn of the microtask queue, so that calls of the same tick share one sync.
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

  /** Makes durable what was written so far. What went to a file that was replaced or removed is written again, all of it, to the present one. */
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

  /** @returns whether the next agent will find it, should this process die now; if not, only a rewrite helps */
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
