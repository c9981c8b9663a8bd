import { Doorbell } from '../async/doorbell.ts';
import type { LoopTurns } from '../async/loop-turns.ts';
import { pause } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { ReplicaStore } from './replica.ts';
import { loadReplica, type StoredKind, saveReplica } from './replica-file.ts';

export interface ReplicaKeeperOptions<T> {
  readonly store: ReplicaStore<T>;
  readonly file: string;
  readonly of: StoredKind;
  readonly turns: LoopTurns;
  /** The least time between two writes. */
  readonly everyMs: number;
  readonly onError: (error: SeineError) => void;
}

/** Keeps a replica's file on disk up to date. The file is a convenience: whatever happens to it, the replica works on. */
export class ReplicaKeeper<T> {
  readonly #options: ReplicaKeeperOptions<T>;

  constructor(options: ReplicaKeeperOptions<T>) {
    this.#options = options;
  }

  /** Fills the store. @returns the stored version, or `undefined` if there was nothing to restore */
  async restore(): Promise<string | undefined> {
    const { store, file, of, turns, onError } = this.#options;
    try {
      const stored = await loadReplica<T>(file, of, turns);
      if (stored) store.restore(stored.objects);
      return stored?.version;
    } catch (thrown) {
      onError(SeineError.from(thrown, 'restore a replica'));
      return undefined;
    }
  }

  /**
   * Writes after changes, as soon as the API server has confirmed the copy for the first time: from then on a new process can do
   * without it. And a last time when `signal` aborts if something is not yet written.
   */
  async run(version: () => string, signal: AbortSignal): Promise<void> {
    const changed = new Doorbell();
    let unsaved = false;
    const unsubscribe = this.#options.store.subscribe(() => {
      unsaved = true;
      changed.ring();
    });
    signal.addEventListener('abort', () => changed.ring(), { once: true });
    const { store, everyMs } = this.#options;
    const firstSync = new AbortController();
    store.whenSynced(signal).then(
      () => firstSync.abort(),
      () => undefined, // the end, which the loop sees
    );
    let isFirst = true;
    while (!signal.aborted) {
      await changed.wait();
      const atOnce = isFirst ? AbortSignal.any([signal, firstSync.signal]) : signal;
      await pause(everyMs, atOnce); // at the end there is no need to wait either
      isFirst &&= !store.synced;
      if (!unsaved) continue;
      unsaved = false;
      await this.#save(version);
    }
    unsubscribe();
  }

  async #save(version: () => string): Promise<void> {
    const { store, file, of, turns, onError } = this.#options;
    try {
      await saveReplica(file, of, store.held(), { version, turns });
    } catch (thrown) {
      onError(SeineError.from(thrown, 'store a replica'));
    }
  }
}
