import { Waiters } from '../base/async/waiters.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { isObject } from './json-rpc.ts';
import { located } from './row-codec.ts';
import type { Uuid } from './schema/atoms.ts';
import type { Column } from './schema/columns.ts';
import type { Table } from './schema/table.ts';

/** Row of any table. Never modified: a changed row is another object. */
export type AnyRow = Readonly<Record<string, unknown>> & { readonly _uuid: Uuid };

/** A program's view of one replicated table. Always a state that the server's table had, never one between two. */
export interface TableView<R extends AnyRow> {
  readonly size: number;
  get(uuid: Uuid): R | undefined;
  /** Returns the rows in the order of arrival. Valid until the next change. */
  rows(): IterableIterator<R>;
  /**
   * Returns the row with this value in a column that the schema makes unique.
   *
   * @throws SeineError `INVARIANT` if the column is not unique, or was not selected.
   */
  find<K extends keyof R & string>(column: K, value: R[K]): R | undefined;
  /**
   * Waits until `check` returns a value for a row; it is called now, and whenever the row changes. Its argument is `undefined` while there
   * is no such row, which also happens just after the transaction that inserts it.
   *
   * @throws SeineError `CANCELLED` if the signal is aborted first; and any error of `check`.
   */
  when<T>(uuid: Uuid, check: (row: R | undefined) => T | undefined, signal: AbortSignal): Promise<T>;
}

/** Replica of one table, with the selected columns. */
export class TableReplica implements TableView<AnyRow> {
  readonly name: string;
  readonly columns: readonly (readonly [name: string, column: Column<unknown, unknown>])[];
  readonly #rows = new Map<Uuid, AnyRow>();
  readonly #unique: ReadonlyMap<string, Map<unknown, AnyRow>>;
  readonly #watchers = new Map<Uuid, Waiters>();

  constructor(name: string, table: Table, columns: readonly string[]) {
    this.name = name;
    this.columns = columns.map((column) => [column, columnOf(table, name, column)]);
    const unique = table.indexes.flatMap((index) => (index.length === 1 ? index : [])).filter((column) => columns.includes(column));
    this.#unique = new Map(unique.map((column) => [column, new Map()]));
  }

  get size(): number {
    return this.#rows.size;
  }

  get(uuid: Uuid): AnyRow | undefined {
    return this.#rows.get(uuid);
  }

  rows(): IterableIterator<AnyRow> {
    return this.#rows.values();
  }

  entries(): IterableIterator<[Uuid, AnyRow]> {
    return this.#rows.entries();
  }

  uuids(): IterableIterator<Uuid> {
    return this.#rows.keys();
  }

  find(column: string, value: unknown): AnyRow | undefined {
    const index = this.#unique.get(column);
    if (index === undefined) throw new SeineError('INVARIANT', `no index over ${this.name}.${column}`);
    return index.get(value);
  }

  async when<T>(uuid: Uuid, check: (row: AnyRow | undefined) => T | undefined, signal: AbortSignal): Promise<T> {
    const watcher = this.#watchers.get(uuid) ?? new Waiters(`${this.name} row ${uuid}`);
    this.#watchers.set(uuid, watcher);
    try {
      return await watcher.wait(() => check(this.#rows.get(uuid)), signal);
    } finally {
      if (watcher.size === 0 && this.#watchers.get(uuid) === watcher) this.#watchers.delete(uuid);
    }
  }

  /** Decodes a row that the server describes in full; columns that it leaves out have their fallback. */
  decode(uuid: Uuid, json: unknown): AnyRow {
    const values = rowObject(json, this.name);
    return this.#build(uuid, (name, column) => (Object.hasOwn(values, name) ? column.decode(values[name]) : column.fallback));
  }

  /** Returns the row after a difference in the form of `update2`. */
  change(row: AnyRow, json: unknown): AnyRow {
    const values = rowObject(json, this.name);
    return this.#build(row._uuid, (name, column) => (Object.hasOwn(values, name) ? column.change(row[name], values[name]) : row[name]));
  }

  equal(a: AnyRow, b: AnyRow): boolean {
    return this.columns.every(([name, column]) => column.equal(a[name], b[name]));
  }

  /** Deletes rows, then inserts rows; so a unique value may move from one row to another in one update. */
  commit(staged: ReadonlyMap<Uuid, AnyRow | undefined>): void {
    for (const [uuid, row] of staged) {
      this.#unindex(uuid);
      if (row === undefined) this.#rows.delete(uuid);
    }
    for (const [uuid, row] of staged) {
      if (row === undefined) continue;
      this.#rows.set(uuid, row);
      for (const [column, index] of this.#unique) index.set(row[column], row);
    }
  }

  /** Repeats the checks of those who wait for one of these rows. */
  wake(uuids: Iterable<Uuid>): void {
    if (this.#watchers.size === 0) return;
    for (const uuid of uuids) this.#watchers.get(uuid)?.poke();
  }

  #unindex(uuid: Uuid): void {
    const row = this.#rows.get(uuid);
    if (row === undefined) return;
    for (const [column, index] of this.#unique) index.delete(row[column]);
  }

  /** Builds a row. All rows of a table get their columns in one order, so that the engine gives them one hidden class. */
  #build(uuid: Uuid, value: (name: string, column: Column<unknown, unknown>) => unknown): AnyRow {
    const row: Record<string, unknown> & { _uuid: Uuid } = { _uuid: uuid };
    let reading = '';
    try {
      for (const [name, column] of this.columns) {
        reading = name;
        row[name] = value(name, column);
      }
    } catch (thrown) {
      throw located(thrown, this.name, reading, uuid);
    }
    return Object.freeze(row);
  }
}

function columnOf(table: Table, name: string, column: string): Column<unknown, unknown> {
  const found = table.columns[column];
  if (found === undefined) throw new SeineError('INVARIANT', `no column ${name}.${column} in the schema`);
  return found;
}

function rowObject(json: unknown, table: string): Readonly<Record<string, unknown>> {
  if (isObject(json)) return json;
  throw new SeineError('PROTOCOL', `OVSDB: row of ${table} is not an object`);
}
