import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { pause } from '../../../base/async/pause.ts';
import { Doorbell } from '../../../base/async/wake-signal.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { compareVersions } from '../reflector/reflector-machine.ts';
import type { ReplicaStore } from './replica.ts';
import { ReplicaFile } from './replica-file.ts';
import type { StoredKind } from './replica-lines.ts';

interface ReplicaKeeperOptions<T> {
  readonly store: ReplicaStore<T>;
  readonly file: string;
  readonly of: StoredKind;
  readonly turns: LoopTurns;
  /** Minimum time between two writes (ms). */
  readonly everyMs: number;
  readonly onError: (error: SeineError) => void;
}

/** Maximum average write rate, for any number of changes: waiting changes are written once. */
const BYTES_PER_MS = 128;

/** Keeps a replica's file on disk up to date. The file is optional: failures of it do not affect the replica. */
export class ReplicaKeeper<T> {
  readonly #options: ReplicaKeeperOptions<T>;
  readonly #file: ReplicaFile<T>;
  /** Keys that the file does not have yet; `undefined` if it has all. */
  #unsaved: Set<string> | undefined;
  #savedVersion = '';

  constructor(options: ReplicaKeeperOptions<T>) {
    this.#options = options;
    this.#file = new ReplicaFile({ path: options.file, of: options.of, turns: options.turns });
  }

  /** Fills the store. @returns the stored version, or `undefined` if there was nothing to restore */
  async restore(): Promise<string | undefined> {
    const { store, onError } = this.#options;
    try {
      const stored = await this.#file.load();
      if (stored) store.restore(stored.objects);
      this.#savedVersion = stored?.version ?? '';
      return stored?.version;
    } catch (thrown) {
      onError(SeineError.from(thrown, 'restore a replica'));
      return undefined;
    }
  }

  /**
   * Writes after changes, as soon as the API server has confirmed the copy for the first time: from then on a new process can use it.
   * Writes a last time when `signal` aborts if there are unsaved changes.
   */
  async run(version: () => string, signal: AbortSignal): Promise<void> {
    const changed = new Doorbell();
    const unsubscribe = this.#options.store.subscribe((keys) => {
      this.#unsaved ??= new Set();
      for (const key of keys) this.#unsaved.add(key);
      changed.ring();
    });
    const { store, everyMs } = this.#options;
    const firstSync = new AbortController();
    store.whenSynced(signal).then(
      () => firstSync.abort(),
      () => undefined, // the end, which the loop detects
    );
    let isFirst = true;
    let waitMs = everyMs;
    while (!signal.aborted) {
      await changed.wait(signal);
      const atOnce = isFirst ? AbortSignal.any([signal, firstSync.signal]) : signal;
      await pause(waitMs, atOnce); // at the end there is no need to wait either
      isFirst &&= !store.synced;
      waitMs = Math.max(everyMs, (await this.#save(version)) / BYTES_PER_MS);
      if (this.#unsaved) changed.ring(); // it failed, or there is more
    }
    await this.#save(version);
    unsubscribe();
    await this.#file.close();
  }

  /** @returns number of bytes written */
  async #save(version: () => string): Promise<number> {
    const { store, onError } = this.#options;
    const changed = this.#unsaved;
    if (!changed) return 0;
    this.#unsaved = undefined;
    try {
      // A server that has gone back in time reuses versions, for objects that may be equal and have not "changed".
      if ((compareVersions(version(), this.#savedVersion) ?? 0) < 0) await this.#file.close();
      const bytes = await this.#file.save({ objects: store.held(), changed, version });
      this.#savedVersion = version();
      return bytes;
    } catch (thrown) {
      this.#unsaved ??= new Set(); // the next save writes everything
      onError(SeineError.from(thrown, 'store a replica'));
      return 0;
    }
  }
}
