import { idle } from '../../base/async/pause.ts';
import type { BatchWriter } from './batch-writer.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import type { RepairLedger } from './repair-ledger.ts';

type RetriesOptions<K extends string, V> = Pick<ReconcilerOptions<K, V>, 'desired' | 'now'> & {
  readonly repairs: Pick<RepairLedger<K>, 'contested' | 'isBackedOff' | 'nextMs'>;
  readonly writer: Pick<BatchWriter<K, V>, 'isBackedOff' | 'nextMs' | 'refusals'>;
  /** Called with keys that may be tried again. */
  readonly due: (keys: Iterable<K>) => void;
};

/**
 * Keys that are skipped for now, because the owner was refused or another process keeps changing them, and a timer for the end of the
 * back-off: no event announces it.
 */
export class Retries<K extends string, V> {
  readonly #options: RetriesOptions<K, V>;
  /** Time when the timer fires; `Infinity` while there is none. */
  #wakeAtMs = Infinity;

  constructor(options: RetriesOptions<K, V>) {
    this.#options = options;
  }

  isBackedOff(key: K, nowMs: number): boolean {
    return this.#options.repairs.isBackedOff(key, nowMs) || this.#options.writer.isBackedOff(key, nowMs);
  }

  /** Starts the timer that calls `due` when the first back-off ends, unless `signal` aborts first. Call after each round. */
  arm(signal: AbortSignal): void {
    const { repairs, writer, now, due } = this.#options;
    const dueMs = Math.min(repairs.nextMs() ?? Infinity, writer.nextMs());
    if (dueMs >= this.#wakeAtMs) return;
    this.#wakeAtMs = dueMs;
    void idle(Math.max(0, dueMs - now()) + 1, signal).then(() => {
      this.#wakeAtMs = Infinity;
      due(this.#keys());
    });
  }

  *#keys(): Generator<K> {
    const { repairs, writer, desired } = this.#options;
    for (const { owner } of writer.refusals()) yield* desired.keysOf(owner);
    yield* repairs.contested().keys();
  }
}
