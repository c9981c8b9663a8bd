import { type ApiObject, keyOf } from '../object/api-object.ts';
import { noJournal, type ObjectJournal, type OpenedJournal } from './object-journal.ts';

/** One stored object. */
export class StoredObject {
  readonly object: ApiObject;
  /** Same as the object's resourceVersion. */
  readonly revision: number;
  #json: string | undefined;

  constructor(object: ApiObject, revision: number, json?: string) {
    this.object = object;
    this.revision = revision;
    this.#json = json;
  }

  /** The object as JSON text, serialized once. */
  get json(): string {
    this.#json ??= JSON.stringify(this.object);
    return this.#json;
  }
}

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly revision: number;
  /** The object now; for DELETED its last state, at the revision of its deletion. */
  readonly entry: StoredObject;
  readonly previous: StoredObject | undefined;
}

type StoreListener = (event: StoreEvent) => void;

/** Number of events kept for each kind, for watches that resume. */
const historyLimit = 20_000;
/** Growth in bytes at which the journal is rewritten, if also four times the live objects. */
const journalSlack = 64 * 1024 * 1024;

interface Shelf {
  readonly entries: Map<string, StoredObject>;
  /** Sorted keys; undefined after a key is added or removed. */
  sorted: readonly string[] | undefined;
  history: StoreEvent[];
  /** Revisions at or below this may be missing from the history. */
  floor: number;
  readonly listeners: Set<StoreListener>;
}

/**
 * All objects of the cluster, by storage name (`group/plural`) and key (`namespace/name`).
 *
 * One revision counter for everything, as in etcd. Listeners run inside `put` and `remove`, after the change is written and visible, so
 * what they keep (allocators, owners) is never behind; they must not write to the store themselves.
 */
export class Store {
  readonly #shelves = new Map<string, Shelf>();
  readonly #journal: ObjectJournal;
  readonly #floor: number;
  readonly #listeners = new Set<(storage: string, event: StoreEvent) => void>();
  #revision: number;
  #liveBytes = 0;

  constructor({ journal, floor, changes }: OpenedJournal = { journal: noJournal, floor: 1, changes: [] }) {
    this.#journal = journal;
    this.#floor = floor;
    this.#revision = Math.max(1, floor);
    for (const { storage, revision, object, deleted } of changes) {
      this.#revision = Math.max(this.#revision, revision);
      this.#record(this.#shelf(storage), deleted ? 'DELETED' : 'ADDED', new StoredObject(object, revision));
    }
  }

  get revision(): number {
    return this.#revision;
  }

  get(storage: string, key: string): StoredObject | undefined {
    return this.#shelves.get(storage)?.entries.get(key);
  }

  count(storage: string): number {
    return this.#shelves.get(storage)?.entries.size ?? 0;
  }

  /** Every entry of one kind, in key order. A snapshot: later changes are not visible. */
  list(storage: string): readonly StoredObject[] {
    const shelf = this.#shelf(storage);
    shelf.sorted ??= Array.from(shelf.entries.keys()).toSorted();
    return shelf.sorted.flatMap((key) => shelf.entries.get(key) ?? []);
  }

  /** Every entry at a revision, in key order; `gone` if the changes since are no longer kept. */
  listAt(storage: string, revision: number): readonly StoredObject[] | 'gone' {
    const since = this.changesSince(storage, revision);
    if (since === 'gone' || since.length === 0) return since === 'gone' ? since : this.list(storage);
    const entries = new Map(this.#shelf(storage).entries);
    for (const { entry, previous } of since.toReversed()) {
      if (previous === undefined) entries.delete(keyOf(entry.object.metadata));
      else entries.set(keyOf(entry.object.metadata), previous);
    }
    return [...entries].toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([, entry]) => entry);
  }

  /** Writes a new or changed object under the next revision, which it sets in a copy of the metadata. */
  put(storage: string, object: ApiObject): StoredObject {
    const revision = this.#revision + 1;
    const stamped: ApiObject = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
    const entry = new StoredObject(stamped, revision, JSON.stringify(stamped));
    this.#commit(storage, entry, 'stored');
    return entry;
  }

  /** Deletes a present object. The event carries it as `object`, under the revision of the deletion. */
  remove(storage: string, object: ApiObject): StoredObject {
    const revision = this.#revision + 1;
    const last: ApiObject = { ...object, metadata: { ...object.metadata, resourceVersion: String(revision) } };
    const entry = new StoredObject(last, revision, JSON.stringify(last));
    this.#commit(storage, entry, 'deleted');
    return entry;
  }

  /**
   * The changes after `revision`, oldest first; `gone` if some of them are no longer kept. The cost is proportional to the result, so a
   * watch may call it after every event.
   */
  changesSince(storage: string, revision: number): readonly StoreEvent[] | 'gone' {
    const { history, floor } = this.#shelf(storage);
    if (revision < floor) return 'gone';
    let low = 0;
    let high = history.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((history[middle]?.revision ?? 0) <= revision) low = middle + 1;
      else high = middle;
    }
    return history.slice(low);
  }

  /** @returns ends the subscription */
  subscribe(storage: string, listener: StoreListener): () => void {
    const { listeners } = this.#shelf(storage);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  /** Subscribes to every change of every kind. @returns ends the subscription */
  subscribeAll(listener: (storage: string, event: StoreEvent) => void): () => void {
    this.#listeners.add(listener);
    return () => void this.#listeners.delete(listener);
  }

  /** Storage names that have ever contained an object. */
  storages(): readonly string[] {
    return Array.from(this.#shelves.keys());
  }

  close(): void {
    this.#journal.close();
  }

  #commit(storage: string, entry: StoredObject, state: 'stored' | 'deleted'): void {
    const deleted = state === 'deleted';
    this.#journal.append({ storage, revision: entry.revision, object: entry.object, deleted }, entry.json);
    this.#revision = entry.revision;
    const shelf = this.#shelf(storage);
    const event = this.#record(shelf, deleted ? 'DELETED' : 'ADDED', entry);
    if (this.#journal.grown > journalSlack + 4 * this.#liveBytes) this.#compact();
    for (const listener of shelf.listeners) listener(event);
    for (const listener of this.#listeners) listener(storage, event);
  }

  #record(shelf: Shelf, type: 'ADDED' | 'DELETED', entry: StoredObject): StoreEvent {
    const key = keyOf(entry.object.metadata);
    const previous = shelf.entries.get(key);
    if (type === 'DELETED') shelf.entries.delete(key);
    else shelf.entries.set(key, entry);
    if (previous === undefined || type === 'DELETED') shelf.sorted = undefined;
    const event: StoreEvent = {
      type: type === 'ADDED' && previous !== undefined ? 'MODIFIED' : type,
      revision: entry.revision,
      entry,
      previous,
    };
    if (entry.revision > shelf.floor) shelf.history.push(event); // objects of a rewritten journal are unordered
    if (shelf.history.length >= 2 * historyLimit) {
      const dropped = shelf.history.length - historyLimit;
      shelf.floor = shelf.history[dropped - 1]?.revision ?? shelf.floor;
      shelf.history = shelf.history.slice(dropped);
    }
    return event;
  }

  #compact(): void {
    const live = Array.from(this.#shelves, ([storage, { entries }]) =>
      Array.from(entries.values(), ({ object, revision }) => ({ storage, revision, object, deleted: false })),
    ).flat();
    this.#journal.rewrite(this.#revision, live);
    this.#liveBytes = live.reduce((bytes, { object }) => bytes + JSON.stringify(object).length, 0);
  }

  #shelf(storage: string): Shelf {
    let shelf = this.#shelves.get(storage);
    if (shelf === undefined) {
      shelf = { entries: new Map(), sorted: undefined, history: [], floor: this.#floor, listeners: new Set() };
      this.#shelves.set(storage, shelf);
    }
    return shelf;
  }
}
