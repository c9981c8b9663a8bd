import { notifyAll } from '../base/async/notify-all.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { isObject } from './json-rpc.ts';
import { isUuid, type Uuid } from './schema/atoms.ts';
import type { ColumnName, Database, Row, TableName } from './schema/table.ts';
import { type AnyRow, TableReplica, type TableView } from './table-replica.ts';

/** Tables and columns to replicate. */
export type Selection<D extends Database> = { readonly [T in TableName<D>]?: readonly ColumnName<D, T>[] };

/** Selected columns of one table. */
type Selected<D extends Database, S extends Selection<D>, T extends TableName<D>> = NonNullable<S[T]>[number] & ColumnName<D, T>;

export type SelectedRow<D extends Database, S extends Selection<D>, T extends TableName<D>> = Row<D, T, Selected<D, S, T>>;

export type Views<D extends Database, S extends Selection<D>> = {
  readonly [T in keyof S & TableName<D>]: TableView<SelectedRow<D, S, T>>;
};

/** One row that was inserted (`before` is missing), deleted (`after` is missing) or changed. */
export type RowChange<D extends Database, S extends Selection<D>> = {
  [T in keyof S & TableName<D>]: {
    readonly table: T;
    readonly uuid: Uuid;
    readonly before: SelectedRow<D, S, T> | undefined;
    readonly after: SelectedRow<D, S, T> | undefined;
  };
}[keyof S & TableName<D>];

export interface AnyChange {
  readonly table: string;
  readonly uuid: Uuid;
  readonly before: AnyRow | undefined;
  readonly after: AnyRow | undefined;
}

/** All rows of all tables at one moment. */
export type Snapshot<D extends Database, S extends Selection<D>> = {
  readonly [T in keyof S & TableName<D>]: ReadonlyMap<Uuid, SelectedRow<D, S, T>>;
};

/** Maximum number of rows by default; more would not be a configuration, and would not fit in memory. */
const maxRowsByDefault = 2_000_000;

type Staged = Map<TableReplica, Map<Uuid, AnyRow | undefined>>;

/** `<table-updates>` of RFC 7047 section 4.1.6, or `<table-updates2>` of ovsdb-server(7) section 4.1.14. */
export type UpdateFormat = 'update' | 'update2';

/**
 * Replica of some columns of some tables.
 *
 * An update is first decoded as a whole and then applied as a whole: no reader sees half of one, and an inconsistent update changes
 * nothing.
 */
export class Replica {
  readonly tables: ReadonlyMap<string, TableReplica>;
  readonly #listeners = new Set<(changes: readonly AnyChange[]) => void>();
  readonly #maxRows: number;

  /** @throws SeineError `INVARIANT` if the database has no such table or column. */
  constructor(database: Database, selection: Readonly<Record<string, readonly string[] | undefined>>, maxRows: number = maxRowsByDefault) {
    this.#maxRows = maxRows;
    const tables: [string, TableReplica][] = [];
    for (const [name, columns] of Object.entries(selection)) {
      const table = database.tables[name];
      if (table === undefined) throw new SeineError('INVARIANT', `no table ${name} in database ${database.name}`);
      tables.push([name, new TableReplica(name, table, columns ?? [])]);
    }
    this.tables = new Map(tables);
  }

  /** Calls the listener after every update, with the rows that it changed, while the replica shows exactly that state. Must not throw. */
  listen(listener: (changes: readonly AnyChange[]) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }

  /** Returns all current rows. Rows are shared with the replica, which never modifies one. */
  snapshot(): ReadonlyMap<string, ReadonlyMap<Uuid, AnyRow>> {
    return new Map(Array.from(this.tables, ([name, table]) => [name, new Map(table.entries())]));
  }

  /**
   * Applies an update to the replica.
   *
   * @throws SeineError `PROTOCOL` if it is inconsistent. Nothing has changed then, and the replica must be replaced.
   */
  apply(updates: unknown, format: UpdateFormat): void {
    this.#commit(this.#stage(updates, format));
  }

  /**
   * Makes the replica equal to a complete one. Rows equal to the current ones stay the same objects and are not reported as changes, so
   * after a reconnect listeners get exactly the differences.
   *
   * @throws SeineError `PROTOCOL`, like `apply`.
   */
  replace(everything: unknown, format: UpdateFormat): void {
    const staged = this.#stage(everything, format);
    for (const table of this.tables.values()) {
      const rows = staged.get(table) ?? new Map<Uuid, AnyRow | undefined>();
      for (const uuid of table.uuids()) if (!rows.has(uuid)) rows.set(uuid, undefined);
      staged.set(table, rows);
    }
    this.#commit(staged);
  }

  #stage(updates: unknown, format: UpdateFormat): Staged {
    const staged: Staged = new Map();
    for (const [name, rows] of Object.entries(members(updates, 'table updates'))) {
      const table = this.tables.get(name);
      if (table === undefined)
        throw new SeineError('PROTOCOL', 'OVSDB: update of a table that is not monitored', { context: { table: name } });
      const stagedRows = new Map<Uuid, AnyRow | undefined>();
      for (const [uuid, update] of Object.entries(members(rows, name))) {
        if (!isUuid(uuid)) throw new SeineError('PROTOCOL', `OVSDB: update of ${name} with a row name that is not a UUID`);
        stagedRows.set(uuid, readers[format](table, uuid, members(update, name)));
      }
      staged.set(table, stagedRows);
    }
    return staged;
  }

  #commit(staged: Staged): void {
    this.#checkRoom(staged);
    const changes: AnyChange[] = [];
    for (const [table, rows] of staged) {
      for (const [uuid, after] of rows) {
        const before = table.get(uuid);
        if (before === after || (before !== undefined && after !== undefined && table.equal(before, after))) rows.delete(uuid);
        else changes.push({ table: table.name, uuid, before, after });
      }
    }
    for (const [table, rows] of staged) table.commit(rows);
    if (changes.length === 0) return;
    for (const [table, rows] of staged) table.wake(rows.keys());
    notifyAll(this.#listeners, changes);
  }

  #checkRoom(staged: Staged): void {
    let rows = 0;
    for (const table of this.tables.values()) rows += table.size;
    for (const [table, stagedRows] of staged) {
      for (const [uuid, after] of stagedRows) rows += (after === undefined ? 0 : 1) - (table.get(uuid) === undefined ? 0 : 1);
    }
    if (rows > this.#maxRows) throw new SeineError('PROTOCOL', `OVSDB: ${rows} rows exceed the limit of ${this.#maxRows}`);
  }
}

type UpdateReader = (table: TableReplica, uuid: Uuid, update: Readonly<Record<string, unknown>>) => AnyRow | undefined;

/** Row after one `<row-update>` or `<row-update2>`; `undefined` if it is deleted. */
const readers: Readonly<Record<UpdateFormat, UpdateReader>> = {
  update(table, uuid, update) {
    return update['new'] === undefined ? undefined : table.decode(uuid, update['new']);
  },
  update2(table, uuid, update) {
    if ('delete' in update) return undefined;
    const whole = update['insert'] ?? update['initial'];
    if (whole !== undefined) return table.decode(uuid, whole);
    const row = table.get(uuid);
    if (row === undefined || update['modify'] === undefined) {
      throw new SeineError('PROTOCOL', `OVSDB: update of ${table.name} that does not fit`, {
        context: { uuid, kinds: Object.keys(update) },
      });
    }
    return table.change(row, update['modify']);
  },
};

function members(value: unknown, what: string): Readonly<Record<string, unknown>> {
  if (isObject(value)) return value;
  throw new SeineError('PROTOCOL', `OVSDB: ${what} is not an object`);
}
