import { EventEmitter, once } from 'node:events';
import { notifyAll } from '../../../base/async/notify-all.ts';
import { compareVersions } from '../reflector/reflector-machine.ts';
import { equalValues } from './equal-values.ts';

/** Read-only copy of one resource. Values are immutable; an unchanged object keeps its value's identity. */
export interface Replica<T> {
  readonly size: number;
  get(key: string): T | undefined;
  /** Returns the objects in no particular order. */
  entries(): IterableIterator<readonly [string, T]>;
  /** True if the API server has confirmed the copy since this process began. Until then it may be the copy stored by an earlier one. */
  readonly synced: boolean;
  whenSynced(signal: AbortSignal): Promise<void>;
  /**
   * Calls back with the keys whose value may have changed; read the state again then. Also calls back, perhaps with no keys, when the copy
   * becomes synced. Synchronous: mark and return. A listener that throws ends the owner of the copy.
   *
   * @returns a function that ends the subscription
   */
  subscribe(listener: (keys: ReadonlySet<string>) => void): () => void;
}

/** Object as last sent by the server; without value if the agent does not use it. */
export interface Held<T> {
  readonly version: string;
  readonly value: T;
}

/** Change of one object. Without `before` it was added, without `after` removed. */
export interface ReceivedChange<T> {
  readonly key: string;
  readonly before?: T;
  readonly after?: T;
  /** Version that the server sent with the change; of a removed object possibly its last. */
  readonly version: string;
}

/** Changes that were made together. */
export interface ReplicaChanges<T> {
  readonly added: number;
  readonly changed: number;
  readonly removed: number;
  /** All changes, or the first ones of many. */
  readonly first: readonly ReceivedChange<T>[];
}

/** Maximum number of changes of a list that observers get one by one. */
const LISTED_MAX = 100;

/** Maximum number of deleted keys remembered, so that a late older event does not restore the object. */
const MAX_TOMBSTONES = 1_024;

const nothing: ReadonlyMap<string, string> = new Map();

/** Replica that a reflector fills. Changes are announced by {@link flush}, so that many become one call. */
export class ReplicaStore<T> implements Replica<T> {
  #objects = new Map<string, Held<T>>();
  readonly #tombstones = new Map<string, string>();
  readonly #listeners = new Set<(keys: ReadonlySet<string>) => void>();
  readonly #observers = new Set<(changes: ReplicaChanges<T>) => void>();
  readonly #syncs = new EventEmitter().setMaxListeners(0);
  #dirty = new Set<string>();
  #synced = false;
  #ignored = 0;

  get size(): number {
    return this.#objects.size;
  }

  get synced(): boolean {
    return this.#synced;
  }

  /** Number of events that were duplicates or came too late. */
  get ignored(): number {
    return this.#ignored;
  }

  get(key: string): T | undefined {
    return this.#objects.get(key)?.value;
  }

  *entries(): IterableIterator<readonly [string, T]> {
    for (const [key, held] of this.#objects) yield [key, held.value];
  }

  /** Returns the objects with versions; for storage. */
  held(): ReadonlyMap<string, Held<T>> {
    return this.#objects;
  }

  async whenSynced(signal: AbortSignal): Promise<void> {
    if (!this.#synced) await once(this.#syncs, 'synced', { signal });
  }

  subscribe(listener: (keys: ReadonlySet<string>) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /**
   * Calls back with each change when it is made; not with a first list, all of which is new. The callback must not throw.
   *
   * @returns a function that ends it
   */
  observe(observer: (changes: ReplicaChanges<T>) => void): () => void {
    this.#observers.add(observer);
    return () => this.#observers.delete(observer);
  }

  /** Fills an empty store with the copy stored by an earlier process. */
  restore(objects: ReadonlyMap<string, Held<T>>): void {
    this.#objects = new Map(objects);
    this.#dirty = new Set(objects.keys());
    this.flush();
  }

  /** Returns an object for a snapshot; the present one if the value is equal, so that no value is kept twice. */
  reuse(key: string, version: string, value: T): Held<T> {
    const old = this.#objects.get(key);
    if (!old || !equalValues(old.value, value)) return { version, value };
    return old.version === version ? old : { version, value: old.value };
  }

  /** Adds or changes an object, if `version` is newer. */
  put(key: string, version: string, value: T): void {
    if (this.#isOld(key, version)) return;
    this.#tombstones.delete(key);
    const old = this.#objects.get(key);
    const held = this.reuse(key, version, value);
    this.#objects.set(key, held);
    if (held.value === old?.value) return;
    this.#dirty.add(key);
    this.#observed({ key, version, after: value, ...(old ? { before: old.value } : {}) });
  }

  /**
   * Removes an object that was deleted (or is no longer used), if `version` is newer. Servers send the version of the deletion, or the
   * object's last.
   */
  remove(key: string, version: string): void {
    const old = this.#objects.get(key);
    const known = old?.version ?? this.#tombstones.get(key);
    if (known !== undefined && (compareVersions(version, known) ?? 0) < 0) {
      this.#ignored++;
      return;
    }
    this.#bury(key, version);
    if (!this.#objects.delete(key)) return;
    this.#dirty.add(key);
    if (old) this.#observed({ key, version, before: old.value });
  }

  /** Returns the number of objects that `next` does not have. */
  missingFrom(next: { has(key: string): boolean }): number {
    let missing = 0;
    for (const key of this.#objects.keys()) if (!next.has(key)) missing++;
    return missing;
  }

  /**
   * Replaces the content with `next`, whose values came through {@link reuse}; in one step, so that no reader sees an intermediate state.
   *
   * @param gone objects that the snapshot reported as deleted, with the version of that
   */
  replace(next: Map<string, Held<T>>, gone: ReadonlyMap<string, string> = nothing): void {
    if (this.#observers.size > 0 && this.#objects.size > 0) this.#observedAll(changesBetween(this.#objects, next));
    for (const [key, { value }] of next) if (this.#objects.get(key)?.value !== value) this.#dirty.add(key);
    for (const key of this.#objects.keys()) if (!next.has(key)) this.#dirty.add(key);
    this.#objects = next;
    this.#tombstones.clear(); // a snapshot may restart versions, after a restore of etcd
    for (const [key, version] of gone) this.#bury(key, version);
  }

  /** Like {@link replace}, but keeps objects that `next` does not have and that were not reported as deleted. */
  merge(next: Map<string, Held<T>>, gone: ReadonlyMap<string, string> = nothing): void {
    const merged = new Map(this.#objects);
    for (const [key, held] of next) merged.set(key, held);
    for (const key of gone.keys()) merged.delete(key);
    this.replace(merged, gone);
  }

  markSynced(): void {
    if (this.#synced) return;
    this.#synced = true;
    this.#announce();
    this.#syncs.emit('synced');
  }

  flush(): void {
    if (this.#dirty.size > 0) this.#announce();
  }

  #observed(change: ReceivedChange<T>): void {
    if (this.#observers.size === 0) return;
    const [was, is] = ['before' in change, 'after' in change];
    this.#observedAll({ added: was ? 0 : 1, changed: was && is ? 1 : 0, removed: is ? 0 : 1, first: [change] });
  }

  #observedAll(changes: ReplicaChanges<T>): void {
    if (changes.first.length > 0) for (const observer of this.#observers) observer(changes);
  }

  #bury(key: string, version: string): void {
    this.#tombstones.delete(key);
    this.#tombstones.set(key, version);
    for (const oldest of this.#tombstones.keys()) {
      if (this.#tombstones.size <= MAX_TOMBSTONES) break;
      this.#tombstones.delete(oldest);
    }
  }

  #announce(): void {
    const keys = this.#dirty;
    this.#dirty = new Set();
    notifyAll(this.#listeners, keys);
  }

  #isOld(key: string, version: string): boolean {
    const known = this.#objects.get(key)?.version ?? this.#tombstones.get(key);
    const old = known !== undefined && (compareVersions(version, known) ?? 1) <= 0;
    if (old) this.#ignored++;
    return old;
  }
}

function changesBetween<T>(before: ReadonlyMap<string, Held<T>>, after: ReadonlyMap<string, Held<T>>): ReplicaChanges<T> {
  const counts = { added: 0, changed: 0, removed: 0 };
  const first: ReceivedChange<T>[] = [];
  const note = (what: keyof typeof counts, change: ReceivedChange<T>): void => {
    counts[what]++;
    if (first.length < LISTED_MAX) first.push(change);
  };
  for (const [key, { version, value }] of after) {
    const old = before.get(key);
    if (old === undefined) note('added', { key, version, after: value });
    else if (old.value !== value) note('changed', { key, version, before: old.value, after: value });
  }
  for (const [key, { version, value }] of before) if (!after.has(key)) note('removed', { key, version, before: value });
  return { ...counts, first };
}
