import { setImmediate as nextTurn } from 'node:timers/promises';
import { Doorbell } from '../../../src/base/async/wake-signal.ts';
import type { Log } from '../../../src/base/log/log.ts';

/** Brings the object of one key to its desired state. Called again after every change that concerns the key. */
type Reconcile = (key: string) => void;

const retryMs = 1000;
/** Keys processed before other work of the process gets its turn. */
const batch = 100;

/** Keys that a controller has to process, and its loop. A key marked ten times is processed once. */
export class ControllerLoop {
  readonly #name: string;
  readonly #reconcile: Reconcile;
  readonly #log: Log;
  readonly #dirty = new Set<string>();
  readonly #bell = new Doorbell();
  readonly #timers = new Set<NodeJS.Timeout>();

  constructor(name: string, reconcile: Reconcile, log: Log) {
    this.#name = name;
    this.#reconcile = reconcile;
    this.#log = log;
  }

  mark(key: string): void {
    this.#dirty.add(key);
    this.#bell.ring();
  }

  markAfter(key: string, delayMs: number): void {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      this.mark(key);
    }, delayMs);
    this.#timers.add(timer);
  }

  /** Runs until `signal`. A key that fails is retried a second later. */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      if (this.#dirty.size === 0) await this.#bell.wait(signal);
      const keys = Array.from(this.#dirty).slice(0, batch);
      for (const key of keys) if (!signal.aborted) this.#one(key);
      if (this.#dirty.size > 0) await nextTurn();
    }
    for (const timer of this.#timers) clearTimeout(timer);
  }

  #one(key: string): void {
    this.#dirty.delete(key);
    try {
      this.#reconcile(key);
    } catch (error) {
      this.#log.warn('controller will try again', {
        controller: this.#name,
        key,
        error: error instanceof Error ? error.message : String(error),
      });
      this.markAfter(key, retryMs);
    }
  }
}
