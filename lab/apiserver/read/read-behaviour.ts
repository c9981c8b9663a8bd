import type { Store, StoreEvent } from '../store/store.ts';

/** What reads need of a store. */
export interface ReadStore extends Pick<Store, 'get' | 'list' | 'listAt' | 'changesSince' | 'revision'> {
  /** Calls back when there may be something new of a kind. @returns ends the subscription */
  subscribe(storage: string, listener: () => void): () => void;
}

/**
 * What happens to a watch. `bookmark`: it tells how far it has come, at a moment of its own. `expired`: what it goes on from is
 * forgotten (410). `error`: it fails. `end`: the server closes it.
 */
export type WatchIncident = 'bookmark' | 'expired' | 'error' | 'end';

/**
 * What a real server may do besides telling everything at once. For tests of clients; a server does none of it by itself.
 */
export interface ReadBehaviour {
  /** What lists and watches are served from, but for quorum reads. */
  readonly cache?: WatchCache;
  /** Asked before each event of each watch, initial ones too. */
  watch?(plural: string): WatchIncident | undefined;
  /** Asked before each list. */
  list?(plural: string): 'expired' | 'error' | undefined;
}

/**
 * The store as one of several servers knows it: each kind for itself may be behind the store, and behind the other kinds.
 *
 * A list by watch that began behind tells what is there, then, live, all that came since, before it says that it was all.
 */
export class WatchCache {
  readonly #store: ReadStore;
  /** The revision up to which a kind was heard of, for those that are behind. */
  readonly #heldAt = new Map<string, number>();
  readonly #listeners = new Map<string, Set<() => void>>();

  constructor(store: ReadStore) {
    this.#store = store;
  }

  /** From now on nothing new is heard of a kind. */
  hold(storage: string): void {
    if (!this.#heldAt.has(storage)) this.#heldAt.set(storage, this.#store.revision);
  }

  /** Hears of the next so many changes of a kind that is held. */
  advance(storage: string, changes: number): void {
    const heldAt = this.#heldAt.get(storage);
    if (heldAt === undefined) return;
    const events = this.#store.changesSince(storage, heldAt);
    const last = events === 'gone' ? undefined : events[changes - 1];
    if (last) this.#heldAt.set(storage, last.revision);
    else this.#heldAt.delete(storage);
    this.#tell(storage);
  }

  /** Wakes the watches of a kind, though nothing has happened. */
  wake(storage: string): void {
    this.#tell(storage);
  }

  /** Hears of everything again. */
  release(storage: string): void {
    if (this.#heldAt.delete(storage)) this.#tell(storage);
  }

  /** One kind, as far as it was heard of. */
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
