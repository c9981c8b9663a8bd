import { join } from 'node:path';
import type { FoundProblem } from '../../api/problem.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { EventData, HistoryKind } from './event-kinds.ts';
import { type EventRecorder, storedEvent } from './event-stream.ts';
import { readHistory } from './read-segments.ts';
import type { HistoryStream } from './segment-files.ts';
import { SegmentWriter, type SegmentWriterOptions } from './segment-writer.ts';

export interface HistoryOptions {
  /** Folder of the segments. */
  readonly folder: string;
  /** Maximum size of all segments (bytes); 0: nothing is recorded. */
  readonly bytesMax: number;
  readonly node: string;
  readonly version: string;
  readonly log: Log;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Milliseconds since the epoch: a time for people, by which nothing is decided. */
  readonly wallMs: () => number;
  readonly create?: NonNullable<SegmentWriterOptions['create']>;
}

/** Interval at which events are written (ms): a kill loses no more. */
const FLUSH_MS = 1_000;
/** Maximum length of events that wait for the disk, in characters. */
const WAITING_MAX = 1024 * 1024;
/** Interval between attempts after a failure (ms). */
const RETRY_MS = 15_000;
const shares: Readonly<Record<Exclude<HistoryStream, 'flows'>, number>> = { events: 0.25, inputs: 0.75 };
const format = 1;

/** Position of an event within this process, and the line without its end. */
export interface RecordedLine {
  readonly position: number;
  readonly line: string;
}

/**
 * History of a node on disk. Events wait in memory for at most a second. A disk that is full or read-only stops only the recording: it is
 * reported as a problem, and tried again.
 */
export class History implements EventRecorder {
  readonly #options: HistoryOptions;
  readonly #writers: Readonly<Record<keyof typeof shares, SegmentWriter>>;
  #waiting: string[] = [];
  #waitingLength = 0;
  #position = 0;
  #lost = 0;
  #lostTotal = 0;
  readonly #written = { events: 0, inputs: 0 };
  #failure: { readonly cause: string; readonly sinceMs: number; readonly retryAtMs: number } | undefined;
  #writing: Promise<void> = Promise.resolve();
  readonly #followers = new Set<(line: RecordedLine) => void>();

  constructor(options: HistoryOptions) {
    this.#options = options;
    const writer = (stream: keyof typeof shares): SegmentWriter =>
      new SegmentWriter({
        folder: options.folder,
        now: options.now,
        wallMs: options.wallMs,
        ...(options.create ? { create: options.create } : {}),
        stream,
        bytesMax: options.bytesMax * shares[stream],
        header: () => ({ format, stream, node: options.node, seine: options.version }),
      });
    this.#writers = { events: writer('events'), inputs: writer('inputs') };
  }

  /** Folder of the segments. */
  get folder(): string {
    return this.#options.folder;
  }

  /** False if nothing is to be recorded. */
  get isEnabled(): boolean {
    return this.#options.bytesMax > 0;
  }

  /** Reason why nothing is recorded now. */
  get failure(): string | undefined {
    return this.#failure?.cause;
  }

  /** Time until which what happened is recorded (ms since the epoch): now; undefined while recording fails. */
  get completeUntilMs(): number | undefined {
    return this.#failure === undefined ? this.#options.wallMs() : undefined;
  }

  /** Number of records of this process on disk, by stream. */
  get written(): Readonly<Record<'events' | 'inputs', number>> {
    return this.#written;
  }

  /** Number of events of this process that were not recorded. */
  get lostTotal(): number {
    return this.#lostTotal;
  }

  /** Number of events of this process, recorded or not. */
  get position(): number {
    return this.#position;
  }

  note<K extends HistoryKind>(kind: K, subjects: readonly string[], data: EventData<K>): void {
    if (!this.isEnabled) return;
    const line = JSON.stringify(
      storedEvent({ wallMs: this.#options.wallMs(), position: ++this.#position }, kind, subjects, data as object),
    );
    for (const follower of this.#followers) follower({ position: this.#position, line });
    if (this.#failure !== undefined || this.#waitingLength + line.length > WAITING_MAX) {
      this.#lost++;
      this.#lostTotal++;
      return;
    }
    this.#waiting.push(line);
    this.#waitingLength += line.length + 1;
  }

  /** Calls back with each later event; must return at once. @returns a function that ends it */
  follow(follower: (line: RecordedLine) => void): () => void {
    this.#followers.add(follower);
    return () => void this.#followers.delete(follower);
  }

  /** Problem to report, if nothing can be recorded. */
  problems(): readonly FoundProblem[] {
    if (this.#failure === undefined) return [];
    const { folder } = this.#options;
    return [
      {
        kind: 'history',
        about: 'disk',
        message: `history is not recorded: ${this.#failure.cause}; nothing else is affected`,
        remedy: `df -h ${folder}; make room there, or set history.size to 0`,
      },
    ];
  }

  /** Writes each second until the signal is aborted, then a last time. */
  async run(signal: AbortSignal): Promise<void> {
    if (!this.isEnabled) return;
    await this.#noteAbsence();
    const timer = setInterval(() => void this.flush(), FLUSH_MS);
    await new Promise<void>((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
    clearInterval(timer);
    this.note('agent.stopped', [`node/${this.#options.node}`], {});
    await this.flush();
    await this.close();
  }

  /** Ends the segments; a later event begins others. */
  async close(): Promise<void> {
    await Promise.all([this.#writers.events.close(), this.#writers.inputs.close()]);
  }

  /** Writes all events that were noted. Never rejects; concurrent calls follow one another. */
  async flush(): Promise<void> {
    this.#writing = this.#writing.then(async () => void (await this.#attempt(() => this.#writeEvents())));
    await this.#writing;
  }

  /** Appends lines to the inputs. @param pause called between chunks. @returns whether all lines are on disk */
  async writeInputs(lines: Iterable<string>, pause: () => Promise<void>): Promise<boolean> {
    if (!this.isEnabled) return false;
    const writer = this.#writers.inputs;
    return await this.#attempt(async () => {
      let [chunk, records] = ['', 0];
      for (const line of lines) {
        records++;
        chunk += `${line}\n`;
        if (chunk.length < CHUNK_LENGTH) continue;
        await writer.append(chunk);
        chunk = '';
        await pause();
      }
      if (chunk !== '') await writer.append(chunk);
      await writer.flush();
      this.#written.inputs += records;
    });
  }

  /** True if the next inputs begin another segment, which must be readable without the ones before. */
  get needsWholeInputs(): boolean {
    return this.#writers.inputs.isFull;
  }

  async #writeEvents(): Promise<void> {
    const { now } = this.#options;
    const events = this.#waiting;
    const [lost, failed] = [this.#lost, this.#failure];
    this.#waiting = [];
    this.#waitingLength = 0;
    const lines = [
      ...(failed ? [this.#own('history.resumed', { seconds: Math.round((now() - failed.sinceMs) / 1_000), cause: failed.cause })] : []),
      ...(lost > 0 ? [this.#own('history.lost', { events: lost })] : []),
      ...events,
    ];
    if (lines.length === 0) return;
    this.#lost += events.length; // until they are written
    try {
      await this.#writers.events.append(`${lines.join('\n')}\n`);
      await this.#writers.events.flush();
    } catch (thrown) {
      this.#lostTotal += events.length; // not before: a counter must never go back
      throw thrown;
    }
    this.#lost -= lost + events.length;
    this.#written.events += lines.length;
  }

  get #node(): string {
    return `node/${this.#options.node}`;
  }

  #own(kind: HistoryKind, data: object): string {
    const at = { wallMs: this.#options.wallMs(), position: ++this.#position };
    return JSON.stringify(storedEvent(at, kind, [this.#node], data));
  }

  get #mayWrite(): boolean {
    return this.#failure === undefined || this.#options.now() >= this.#failure.retryAtMs;
  }

  /** @returns whether it succeeded */
  async #attempt(work: () => Promise<void>): Promise<boolean> {
    const { now, log } = this.#options;
    if (!this.#mayWrite) return false;
    try {
      await work();
      this.#failure = undefined;
      log.working('history');
      return true;
    } catch (thrown) {
      const { rawMessage: cause } = SeineError.from(thrown, 'write history');
      this.#failure = { cause, sinceMs: this.#failure?.sinceMs ?? now(), retryAtMs: now() + RETRY_MS };
      log.failing('history', 'history is not recorded', { cause });
      return false;
    }
  }

  /** Notes the time since the last event of the previous agent: what happened then is not in the history. */
  async #noteAbsence(): Promise<void> {
    const { folder, wallMs } = this.#options;
    try {
      let last: number | undefined;
      for await (const { t } of readHistory(folder, 'events', { fromMs: wallMs(), untilMs: wallMs() })) if (typeof t === 'number') last = t;
      if (last !== undefined && last < wallMs())
        this.note('agent.absent', [this.#node], { seconds: Math.round((wallMs() - last) / 1_000) });
    } catch {
      // The folder cannot be read; writing to it reports that.
    }
  }
}

const CHUNK_LENGTH = 64 * 1024;

/** Folder of the history below the agent's state. */
export function historyFolder(stateDir: string): string {
  return join(stateDir, 'history');
}
