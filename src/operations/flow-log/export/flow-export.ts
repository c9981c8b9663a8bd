import { idle } from '../../../base/async/pause.ts';
import { within } from '../../../base/async/time-limit.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import type { ExportCounts, ExportedItem, ExportOutcome, FlowReceiver } from './exported-item.ts';

/** Maximum number of items that wait, those of the current batch included. */
const WAITING_MAX = 4_096;
/** Maximum number of items of a batch: encoding them blocks the agent for about 4 ms. */
const BATCH_MAX = 256;
/** Time that the first item of a batch waits for others (ms). */
const COLLECT_MS = 1_000;
/** Wait before a batch is sent again (ms): it doubles with each failure in a row, and is shortened at random by up to a half. */
const RETRY = { firstMs: 1_000, mostMs: 30_000 } as const;
/** Time for what still waits when the export ends (ms). */
const LAST_MS = 2_000;
const REPORT_EVERY_MS = 60_000;

interface FlowExportOptions {
  /** Name in log lines and metrics. */
  readonly name: 'otlp' | 'ipfix';
  readonly receiver: FlowReceiver;
  readonly log: Log;
  /** Milliseconds from any fixed moment; never goes back. */
  readonly now: () => number;
  /** Waits before an attempt; a test has another. */
  readonly wait?: typeof idle;
}

/**
 * Items on their way to one receiver: a queue of a fixed size, and one batch at a time. A receiver that is down or slow costs the queue and
 * nothing else; what finds no room is counted. A batch whose answer is lost is sent again, so a receiver may get records twice.
 */
export class FlowExport {
  readonly #options: FlowExportOptions;
  readonly #waiting: ExportedItem[] = [];
  readonly #counts: Record<ExportOutcome, number> = { sent: 0, full: 0, refused: 0, unsent: 0 };
  readonly #bell = new Doorbell();
  readonly #closing = new AbortController();
  #reportedMs = Number.NEGATIVE_INFINITY;
  readonly #running: Promise<void>;

  constructor(options: FlowExportOptions) {
    this.#options = options;
    this.#running = this.#run(this.#closing.signal);
  }

  get name(): 'otlp' | 'ipfix' {
    return this.#options.name;
  }

  get counts(): ExportCounts {
    return this.#counts;
  }

  /** Adds an item. Never waits. */
  add(item: ExportedItem): void {
    if (this.#closing.signal.aborted) this.#counts.unsent++;
    else if (this.#waiting.length >= WAITING_MAX) this.#counts.full++;
    else if (this.#waiting.push(item) === 1 || this.#waiting.length === BATCH_MAX) this.#bell.ring();
  }

  /** Ends the export. Resolves when what waited is sent or given up. Never rejects. */
  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new SeineError('CANCELLED', 'the export ends'));
    await this.#running;
    const signal = AbortSignal.timeout(LAST_MS);
    while (this.#waiting.length > 0 && (await this.#sendBatch(signal)) !== 'later');
    this.#counts.unsent += this.#waiting.length;
    this.#waiting.length = 0;
    this.#options.receiver.close();
  }

  async #run(signal: AbortSignal): Promise<void> {
    let retryMs: number = RETRY.firstMs;
    while (!signal.aborted) {
      if (this.#waiting.length === 0) await this.#bell.wait(signal);
      if (this.#waiting.length < BATCH_MAX) await this.#collect(signal);
      if (signal.aborted || this.#waiting.length === 0) continue;
      if ((await this.#sendBatch(signal)) === 'done') {
        retryMs = RETRY.firstMs;
        continue;
      }
      await (this.#options.wait ?? idle)(retryMs * (1 - Math.random() / 2), signal);
      retryMs = Math.min(retryMs * 2, RETRY.mostMs);
    }
  }

  /** Waits until a batch is full, or its first item has waited long enough. */
  async #collect(signal: AbortSignal): Promise<void> {
    const until = within(signal, COLLECT_MS);
    while (!until.aborted && this.#waiting.length < BATCH_MAX) await this.#bell.wait(until);
  }

  /** @returns `later` if the batch still waits */
  async #sendBatch(signal: AbortSignal): Promise<'done' | 'later'> {
    const { name, receiver, log } = this.#options;
    const batch = this.#waiting.slice(0, BATCH_MAX);
    let refused = batch.length;
    try {
      this.#report();
      ({ refused } = await receiver.send(batch, signal));
      log.working(`flow export ${name}`);
    } catch (thrown) {
      const error = SeineError.from(thrown, `export flows by ${name}`);
      if (signal.aborted) return 'later';
      log.failing(`flow export ${name}`, 'the receiver of the flow log does not take records', { receiver: name, cause: error.rawMessage });
      if (error.code === 'UNAVAILABLE') return 'later';
    }
    this.#waiting.splice(0, batch.length);
    this.#counts.refused += refused;
    this.#counts.sent += batch.length - refused;
    return 'done';
  }

  #report(): void {
    const { receiver, now } = this.#options;
    const nowMs = now();
    if (nowMs - this.#reportedMs < REPORT_EVERY_MS) return;
    this.#reportedMs = nowMs;
    receiver.report?.(this.#counts);
  }
}
