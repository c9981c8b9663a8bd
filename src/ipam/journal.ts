import { SeineError } from '../errors/seine-error.ts';
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

/**
 * Makes records durable, many at a time: all that arrive while a write is on its way go with the next one, so that sixty-four
 * concurrent ADDs share a few syncs of the disk.
 *
 * After a failed write it is not known what the file holds. The next write is then a full rewrite from memory, which also drops
 * whatever a failed one left behind; so a full disk or a read-only file system heals by itself once it can be written again.
 */
export class Journal {
  readonly #store: JournalStore;
  readonly #snapshot: () => readonly JournalRecord[];
  #lines: string[] = [];
  #waiters: Waiter[] = [];
  #draining: Promise<void> | undefined;
  /** The file cannot be appended to: it was never begun, or a write failed. */
  #rewrite = true;
  /** The file is being replaced: what is appended to it now is lost. */
  #replacing = false;
  /** What was appended last may become zeros if the machine dies. */
  #unsynced = false;
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
   * The caller's state must hold the record already.
   *
   * @throws SeineError `UNAVAILABLE` if it cannot be made durable; it may be in the file all the same until the next rewrite
   */
  async write(record: JournalRecord): Promise<void> {
    const durable = new Promise<void>((resolve, reject) => this.#waiters.push({ resolve, reject }));
    this.note(record);
    await durable;
  }

  /** Begins to write without waiting. A failure is not lost: the next rewrite has the state the record led to. */
  note(record: JournalRecord): void {
    this.#written++;
    this.#lines.push(encodeRecord(record));
    this.#draining ??= this.#drain();
  }

  /**
   * As `note`, and begins at once: once `handedOver` resolves, the record survives the death of this process. It need not
   * survive the machine's.
   */
  keep(record: JournalRecord): void {
    this.#written++;
    if (this.#rewrite || this.#replacing) {
      this.note(record);
      return;
    }
    const bytes = Buffer.from(encodeRecord(record));
    try {
      this.#store.appendUnsynced(bytes);
      this.#appended += bytes.length;
      this.#unsynced = true;
      if (this.#store.isInPlace()) return;
      this.#rewrite = true;
      this.note(record);
    } catch (thrown) {
      this.#fail(thrown);
      this.note(record);
    }
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
    this.#draining ??= this.#drain();
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

  async #drain(): Promise<void> {
    // A turn of the microtask queue, so that calls of the same tick share one write.
    await Promise.resolve();
    while (this.#lines.length > 0 || this.#waiters.length > 0) {
      const lines = this.#lines;
      const waiters = this.#waiters;
      this.#lines = [];
      this.#waiters = [];
      try {
        await this.#writeOut(lines);
        this.#failure = undefined;
        for (const { resolve } of waiters) resolve();
      } catch (thrown) {
        const failure = this.#fail(thrown);
        for (const { reject } of waiters) reject(failure);
      }
    }
    this.#draining = undefined;
  }

  /** What went to a file that was replaced or removed is written again, all of it, to the present one. */
  async #writeOut(lines: readonly string[]): Promise<void> {
    if (!this.#rewrite && this.#appended <= this.#compactAt && (await this.#append(lines))) return;
    const bytes = Buffer.from(this.#snapshot().map(encodeRecord).join(''));
    this.#replacing = true;
    try {
      await this.#store.replace(bytes);
    } finally {
      this.#replacing = false;
    }
    this.#rewrite = false;
    this.#unsynced = false;
    this.#appended = 0;
    this.#compactAt = Math.max(compactionBytesMin, 4 * bytes.length);
  }

  /** @returns whether it is there for the next agent */
  async #append(lines: readonly string[]): Promise<boolean> {
    // Zeros in place of what was not synced must not swallow what comes now: it begins on a line of its own.
    const bytes = Buffer.from(`${this.#unsynced ? '\n' : ''}${lines.join('')}`);
    this.#unsynced = false;
    await this.#store.append(bytes);
    this.#appended += bytes.length;
    return this.#store.isInPlace();
  }

  #fail(thrown: unknown): SeineError {
    this.#rewrite = true;
    this.#failure = new SeineError('UNAVAILABLE', 'the IPAM journal cannot be written', { cause: thrown });
    return this.#failure;
  }
}
