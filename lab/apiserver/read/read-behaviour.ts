import type { Store, StoreEvent } from '../store/store.ts';

/** Methods of a store that reads use. */
export interface ReadStore extends Pick<Store, 'get' | 'list' | 'listAt' | 'changesSince' | 'revision'> {
  /** Calls the listener when a kind may have changed. @returns ends the subscription */
  subscribe(storage: string, listener: () => void): () => void;
}

/**
 * Fault of a watch. `bookmark`: an unscheduled bookmark. `expired`: its revision is compacted (410). `error`: it fails. `end`: the server
 * closes it.
 */
export type WatchIncident = 'bookmark' | 'expired' | 'error' | 'end';

/** Behaviour of a real server besides delivering everything immediately. For tests of clients; a server does none of it by itself. */
export interface ReadBehaviour {
  /** Source of lists and watches, except quorum reads. */
  readonly cache?: WatchCache;
  /** Called before each event of each watch, including initial events. */
  watch?(plural: string): WatchIncident | undefined;
  /** Called before each list. */
  list?(plural: string): 'expired' | 'error' | undefined;
}

/**
 * The store as one of several servers knows it: each kind may lag behind the store, and behind the other kinds.
 *
 * A list by watch that began behind sends the initial objects, then, live, all that came since, before its final bookmark.
 */
export class WatchCache {
  readonly #store: ReadStore;
  /** Last known revision of each kind that lags. */
  readonly #heldAt = new Map<string, number>();
  readonly #listeners = new Map<string, Set<() => void>>();

  constructor(store: ReadStore) {
    this.#store = store;
  }

  /** Stops delivering changes of a kind. */
  hold(storage: string): void {
    if (!this.#heldAt.has(storage)) this.#heldAt.set(storage, this.#store.revision);
  }

  /** Delivers the next `changes` changes of a stopped kind. */
  advance(storage: string, changes: number): void {
    const heldAt = this.#heldAt.get(storage);
    if (heldAt === undefined) return;
    const events = this.#store.changesSince(storage, heldAt);
    const last = events === 'gone' ? undefined : events[changes - 1];
    if (last) this.#heldAt.set(storage, last.revision);
    else this.#heldAt.delete(storage);
    this.#tell(storage);
  }

  /** Wakes the watches of a kind without a change. */
  wake(storage: string): void {
    this.#tell(storage);
  }

  /** Delivers all changes of the kind again. */
  release(storage: string): void {
    if (this.#heldAt.delete(storage)) this.#tell(storage);
  }

  /** One kind, up to its last delivered revision. */
  viewOf(storage: string): ReadStore {
    const store = this.#store;
    const upTo = (): number => this.#heldAt.get(storage) ?? store.revision;
    return {
      get revision() {
        return upTo();
      },
      get: (kind, key) => store.get(kind, key),
      list: (kind) => listed(store.listAt(kind, upTo()), () => store.list(kind)),
      listAt: (kind, revision) => store.listAt(kind, Math.min(revision, upTo())),
      changesSince: (kind, revision) => heard(store.changesSince(kind, revision), upTo()),
      subscribe: (kind, listener) => this.#subscribe(kind, listener),
    };
  }

  #subscribe(storage: string, listener: () => void): () => void {
    const unsubscribe = this.#store.subscribe(storage, listener);
    const listeners = this.#listeners.get(storage) ?? new Set();
    this.#listeners.set(storage, listeners);
    listeners.add(listener);
    return () => {
      unsubscribe();
      listeners.delete(listener);
    };
  }

  #tell(storage: string): void {
    for (const listener of this.#listeners.get(storage) ?? []) listener();
  }
}

function listed<T>(entries: readonly T[] | 'gone', otherwise: () => readonly T[]): readonly T[] {
  return entries === 'gone' ? otherwise() : entries;
}

function heard(events: readonly StoreEvent[] | 'gone', upTo: number): readonly StoreEvent[] | 'gone' {
  return events === 'gone' ? events : events.filter(({ revision }) => revision <= upTo);
}
