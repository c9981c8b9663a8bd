import { type Steps, tinyWork } from '../../base/async/steps.ts';

/** Rows of a matrix. Readers see all rows of the last publication while the next ones are made in steps. */
export class SteadyRows<V extends object> implements ReadonlyMap<string, V> {
  readonly #current = new Map<string, V>();
  /** Published rows by key, for rows that have changed since. */
  #before = new Map<string, V | undefined>();
  #size = 0;

  /** Rows of the next publication: a view. */
  get current(): ReadonlyMap<string, V> {
    return this.#current;
  }

  set(key: string, row: V): void {
    this.#note(key);
    this.#current.set(key, row);
  }

  delete(key: string): void {
    this.#note(key);
    this.#current.delete(key);
  }

  /** Sets a row that readers see at once. */
  setPublished(key: string, row: V): void {
    if (!this.has(key)) this.#size++;
    this.#before.delete(key);
    this.#current.set(key, row);
  }

  /** Returns the keys of rows that will be added, removed or changed. */
  *changes(): Steps<ReadonlySet<string>> {
    const changed = new Set<string>();
    let work = 0;
    for (const [key, before] of this.#before) {
      if (this.#current.get(key) !== before) changed.add(key);
      if (++work % tinyWork === 0) yield;
    }
    return changed;
  }

  publish(): void {
    if (this.#before.size > 0) this.#before = new Map();
    this.#size = this.#current.size;
  }

  get size(): number {
    return this.#size;
  }

  get(key: string): V | undefined {
    return this.#before.has(key) ? this.#before.get(key) : this.#current.get(key);
  }

  has(key: string): boolean {
    return this.get(key) !== undefined;
  }

  forEach(callback: (row: V, key: string, map: ReadonlyMap<string, V>) => void): void {
    for (const [key, row] of this) callback(row, key, this);
  }

  entries(): MapIterator<[string, V]> {
    return this.#before.size === 0 ? this.#current.entries() : this.#published();
  }

  *keys(): MapIterator<string> {
    for (const [key] of this) yield key;
  }

  *values(): MapIterator<V> {
    for (const [, row] of this) yield row;
  }

  [Symbol.iterator](): MapIterator<[string, V]> {
    return this.entries();
  }

  *#published(): MapIterator<[string, V]> {
    for (const entry of this.#current) if (!this.#before.has(entry[0])) yield entry;
    for (const [key, row] of this.#before) if (row !== undefined) yield [key, row];
  }

  #note(key: string): void {
    if (!this.#before.has(key)) this.#before.set(key, this.#current.get(key));
  }
}
