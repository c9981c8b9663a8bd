import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { readHistory } from '../history/read-segments.ts';
import { listSegments } from '../history/segment-files.ts';
import { SegmentWriter, type SegmentWriterOptions } from '../history/segment-writer.ts';
import type { FlowRecord } from './records/flow-record.ts';
import { readStoredFlow, storedFlow } from './records/stored-flow.ts';

/** Interval at which records are written (ms): a kill loses no more. */
const FLUSH_MS = 1_000;
/** Maximum length of records that wait for the disk, in characters. */
const WAITING_MAX = 2 * 1024 * 1024;
/** Interval between attempts after a failure (ms). */
const RETRY_MS = 15_000;

interface FlowFilesOptions {
  readonly folder: string;
  /** Maximum size of all files (bytes); 0: nothing is written. */
  readonly bytesMax: number;
  readonly node: string;
  readonly log: Log;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Milliseconds since the epoch, for names of files. */
  readonly wallMs: () => number;
  /** Called with the number of records that were not written. */
  readonly lost: (count: number) => void;
  readonly create?: NonNullable<SegmentWriterOptions['create']>;
}

/**
 * Denied, refused and closed connections on disk, which survive a restart of the agent. A disk that is full or read-only stops only this:
 * records without a place are counted.
 */
export class FlowFiles {
  readonly #options: FlowFilesOptions;
  readonly #writer: SegmentWriter;
  readonly #timer: NodeJS.Timeout | undefined;
  #waiting: string[] = [];
  #length = 0;
  #retryAtMs = 0;
  #writing: Promise<void> = Promise.resolve();

  constructor(options: FlowFilesOptions) {
    const { folder, bytesMax, node, now, wallMs, create } = options;
    this.#options = options;
    const header = () => ({ format: 1, stream: 'flows', node });
    this.#writer = new SegmentWriter({ folder, stream: 'flows', bytesMax, header, now, wallMs, ...(create && { create }) });
    if (bytesMax > 0) this.#timer = setInterval(() => void this.flush(), FLUSH_MS).unref();
  }

  /** Adds a record, if it is of a kind that is kept. */
  add(record: FlowRecord): void {
    // Neither openings nor connections that were open before: a start of the log has thousands of these, and ends would be overwritten.
    if (this.#options.bytesMax === 0 || record.event === 'opened' || record.event === 'seen') return;
    const text = storedFlow(record);
    if (this.#length + text.length > WAITING_MAX) {
      this.#options.lost(1);
      return;
    }
    this.#waiting.push(text);
    this.#length += text.length + 1;
  }

  /** Writes what waits. Never rejects. */
  flush(): Promise<void> {
    this.#writing = this.#writing.then(() => this.#write());
    return this.#writing;
  }

  /** Writes what waits, and ends the file. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    await this.flush();
    await this.#writer.close();
  }

  /** Yields records of a period, the oldest first. @throws the error of the file system, if the folder cannot be read */
  async *read(fromMs: number, untilMs: number): AsyncGenerator<FlowRecord> {
    for await (const line of readHistory(this.#options.folder, 'flows', { fromMs, untilMs })) {
      const record = readStoredFlow(line);
      if (record && record.timeMs >= fromMs && record.timeMs < untilMs) yield record;
    }
  }

  /** Returns the time of the last record of an earlier agent (Unix time, ms); undefined if there is none. */
  async lastMs(untilMs: number): Promise<number | undefined> {
    const last = (await listSegments(this.#options.folder, 'flows')).at(-1);
    if (!last) return undefined;
    let found = last.startMs;
    for await (const { timeMs } of this.read(last.startMs, untilMs)) found = Math.max(found, timeMs);
    return found;
  }

  async #write(): Promise<void> {
    const { now, log, lost } = this.#options;
    if (this.#waiting.length === 0 || now() < this.#retryAtMs) return;
    const lines = this.#waiting;
    [this.#waiting, this.#length] = [[], 0];
    try {
      await this.#writer.append(lines.map((text) => `${text}\n`).join(''));
      await this.#writer.flush();
      log.working('flow files');
    } catch (thrown) {
      this.#retryAtMs = now() + RETRY_MS;
      lost(lines.length);
      log.failing('flow files', 'the flow log is not written to disk', { cause: SeineError.from(thrown, 'write flows').rawMessage });
    }
  }
}
