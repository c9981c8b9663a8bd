import { setTimeout as sleep } from 'node:timers/promises';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';

/** Time between attempts to write (ms). */
const PAUSE_MS = { first: 250, most: 30_000 } as const;

interface OwnAnnotationsOptions {
  /** Returns the annotations of this node's object as last read; undefined while it is unknown. */
  readonly present: () => Readonly<Record<string, string>> | undefined;
  /** Writes annotations; `null` removes one. */
  readonly write: (annotations: Readonly<Record<string, string | null>>, signal: AbortSignal) => Promise<void>;
  /** Calls back when this node's object may have changed. @returns a function that ends it */
  readonly subscribe: (listener: () => void) => () => void;
  readonly log: Log;
  /** Times between attempts, for tests (ms). */
  readonly pauses?: { readonly first: number; readonly most: number };
  readonly now: () => number;
}

/**
 * Annotations of this node's own object by which its peers know how to reach it. Written only where the object differs, so a restart of all
 * agents writes nothing. They stay when the agent stops.
 */
export class OwnAnnotations {
  readonly #options: OwnAnnotationsOptions;
  readonly #wanted = new Map<string, string | null>();
  /** Time of the first moment at which the object had the desired value. */
  readonly #since = new Map<string, number>();
  readonly #bell = new Doorbell();
  readonly #listeners = new Set<() => void>();

  constructor(options: OwnAnnotationsOptions) {
    this.#options = options;
  }

  /** Sets the desired value of an annotation; undefined: the object shall not have it. Annotations that were never set are left unchanged. */
  want(key: string, value: string | undefined): void {
    const text = value ?? null;
    if (this.#wanted.has(key) && this.#wanted.get(key) === text) return;
    this.#wanted.set(key, text);
    this.#since.delete(key);
    this.#note();
    this.#bell.ring();
  }

  /** Returns since when the object has the desired value, as `now` of the options measures it; undefined while it does not. */
  writtenSince(key: string): number | undefined {
    return this.#since.get(key);
  }

  /** Calls back when an annotation has its desired value. @returns a function that ends it */
  subscribe(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Writes until the signal is aborted. A failure is repeated: everything else on the node continues. */
  async run(signal: AbortSignal): Promise<void> {
    const { pauses = PAUSE_MS, subscribe } = this.#options;
    const end = subscribe(() => {
      this.#note();
      this.#bell.ring();
    });
    this.#note();
    try {
      for (let pauseMs = pauses.first; !signal.aborted; ) {
        const missing = this.#missing();
        if (Object.keys(missing).length === 0) {
          pauseMs = pauses.first;
          await this.#bell.wait(signal);
          continue;
        }
        if (await this.#write(missing, signal)) pauseMs = pauses.first;
        // The watch delivers the new object shortly after; another writer may have written it again.
        await sleep(pauseMs, undefined, { signal });
        pauseMs = Math.min(2 * pauseMs, pauses.most);
      }
    } catch (thrown) {
      if (!signal.aborted) throw thrown;
    } finally {
      end();
    }
  }

  async #write(missing: Readonly<Record<string, string | null>>, signal: AbortSignal): Promise<boolean> {
    const { write, log } = this.#options;
    try {
      await write(missing, signal);
      log.working('annotations of the node');
      return true;
    } catch (thrown) {
      const error = SeineError.from(thrown, 'annotations of the node');
      if (error.code === 'CANCELLED' || error.code === 'INVARIANT') throw error;
      const keys = Object.keys(missing).join(', ');
      log.failing('annotations of the node', 'annotations of this node’s object cannot be written', { keys, cause: error.message });
      return false;
    }
  }

  #missing(): Readonly<Record<string, string | null>> {
    const present = this.#options.present();
    if (present === undefined) return {};
    return Object.fromEntries([...this.#wanted].filter(([key, value]) => (present[key] ?? null) !== value));
  }

  /** Records which annotations have their desired values. */
  #note(): void {
    const present = this.#options.present();
    if (present === undefined) return;
    let isNews = false;
    for (const [key, value] of this.#wanted) {
      const isWritten = (present[key] ?? null) === value;
      if (isWritten && !this.#since.has(key)) {
        this.#since.set(key, this.#options.now());
        isNews = true;
      } else if (!isWritten) this.#since.delete(key);
    }
    if (isNews) for (const listener of this.#listeners) listener();
  }
}
