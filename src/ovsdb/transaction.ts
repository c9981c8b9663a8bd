import { SeineError } from '../base/errors/seine-error.ts';
import type { Json } from './json.ts';
import { isObject } from './json-rpc.ts';
import { columnOf, encodeConditions, encodeRow, encodeTerms, inColumn } from './row-codec.ts';
import { NewRow, type Uuid } from './schema/atoms.ts';
import {
  type ColumnName,
  type ColumnsOf,
  type Condition,
  type Database,
  type Mutation,
  type ReadOf,
  type Row,
  type RowValues,
  type TableName,
  uuidColumn,
} from './schema/table.ts';

/** Rows to act on: one row, or all that meet every condition; with no condition, all. */
export type Where<D extends Database, T extends TableName<D>> = Uuid | NewRow<T> | readonly Condition<D, T>[];

/** Placeholder for the number of rows that an operation matched, until the transaction is committed. */
export class RowCount {
  readonly kind = 'row count';
}

/** Placeholder for the rows that a `select` finds, until the transaction is committed. */
export class FoundRows<R> {
  readonly read: (json: unknown) => R;

  constructor(read: (json: unknown) => R) {
    this.read = read;
  }
}

export interface WaitFor<D extends Database, T extends TableName<D>, K extends ColumnName<D, T>> {
  readonly where: Where<D, T>;
  readonly columns: readonly K[];
  readonly until: '==' | '!=';
  /** Rows in any order; each with just the columns named. */
  readonly rows: readonly { readonly [P in K]: RowValues<D, T>[P] }[];
  /** 0 tests once. With more the server blocks this transaction, and it is not joined with others. */
  readonly timeoutMs: number;
}

/**
 * Operations of one transaction, in order: each sees the effects of those before it, and either all are applied or none.
 *
 * Only describes; nothing is sent. The methods return placeholders for the server's results, to be resolved with `Committed`.
 *
 * Source: RFC 7047 section 5.2.
 */
export class Transaction<D extends Database> {
  readonly operations: Json[] = [];
  readonly #database: D;
  readonly #nextName: () => string;
  readonly #indexes = new Map<object, number>();
  #blocks = false;

  /** @param nextName returns a name for a new row, unique among all transactions that are sent together */
  constructor(database: D, nextName: () => string) {
    this.#database = database;
    this.#nextName = nextName;
  }

  /** True if it may block at the server, so that nothing else should be joined with it. */
  get blocks(): boolean {
    return this.#blocks;
  }

  /** Inserts a row. A row of a table that is not `root` is deleted by the commit unless another row refers to it. */
  insert<T extends TableName<D>>(table: T, values: RowValues<D, T>): NewRow<T> {
    const row = new NewRow(table, this.#nextName());
    return this.#add({ op: 'insert', table, 'uuid-name': row.uuidName, row: encodeRow(this.#database, table, values) }, row);
  }

  update<T extends TableName<D>>(table: T, where: Where<D, T>, values: RowValues<D, T>): RowCount {
    const row = encodeRow(this.#database, table, values);
    return this.#add({ op: 'update', table, where: this.#encodeWhere(table, where), row }, new RowCount());
  }

  mutate<T extends TableName<D>>(table: T, where: Where<D, T>, ...mutations: readonly Mutation<D, T>[]): RowCount {
    const encoded = mutations.map(([name, mutator, operand]) => {
      const column = columnOf(this.#database, table, name);
      return inColumn(table, name, () =>
        mutator === 'delete keys' ? [name, 'delete', column.encodeKeys(operand)] : [name, mutator, column.encodeOperand(operand)],
      );
    });
    return this.#add({ op: 'mutate', table, where: this.#encodeWhere(table, where), mutations: encoded }, new RowCount());
  }

  delete<T extends TableName<D>>(table: T, where: Where<D, T>): RowCount {
    return this.#add({ op: 'delete', table, where: this.#encodeWhere(table, where) }, new RowCount());
  }

  select<T extends TableName<D>, K extends ColumnName<D, T>>(table: T, where: Where<D, T>, columns: readonly K[]): FoundRows<Row<D, T, K>> {
    const operation = { op: 'select', table, where: this.#encodeWhere(table, where), columns: ['_uuid', ...columns] };
    return this.#add(operation, new FoundRows((json) => this.#decodeRow(table, columns, json)));
  }

  /** Adds a precondition: the transaction is refused, with `timed out`, unless it is met. */
  wait<T extends TableName<D>, K extends ColumnName<D, T>>(table: T, { where, columns, until, rows, timeoutMs }: WaitFor<D, T, K>): void {
    if (timeoutMs > 0) this.#blocks = true;
    const encodedRows = rows.map((row) => encodeTerms(this.#database, table, row));
    this.operations.push({
      op: 'wait',
      table,
      where: this.#encodeWhere(table, where),
      columns,
      until,
      rows: encodedRows,
      timeout: timeoutMs,
    });
  }

  /**
   * Adds a precondition: some columns of a row still have the values last seen. The transaction is refused, with `timed out`, if they do
   * not. Call it before the row is changed in the same transaction.
   */
  unchanged<T extends TableName<D>, K extends ColumnName<D, T>>(table: T, row: Row<D, T, K>, columns: readonly K[]): void {
    this.operations.push({
      op: 'wait',
      table,
      where: [['_uuid', '==', uuidColumn.encode(row._uuid)]],
      columns,
      until: '==',
      rows: [encodeTerms(this.#database, table, Object.fromEntries(columns.map((name) => [name, row[name]])))],
      timeout: 0,
    });
  }

  /** Refuses the transaction, with `not owner`, unless this client has the lock. */
  assertLock(name: string): void {
    this.operations.push({ op: 'assert', lock: name });
  }

  /** Written to the server's log file with the transaction. */
  comment(text: string): void {
    this.operations.push({ op: 'comment', comment: text });
  }

  /** Commits only once the change is on disk. */
  durable(): void {
    this.operations.push({ op: 'commit', durable: true });
  }

  /** Refuses the transaction, with `aborted`: a dry run, except that constraints checked at the commit are not evaluated. */
  abort(): void {
    this.operations.push({ op: 'abort' });
  }

  /** Makes the server's results available. */
  committed(results: readonly unknown[]): Committed {
    return new Committed(results, this.#indexes);
  }

  #add<S extends object>(operation: Json, standIn: S): S {
    this.#indexes.set(standIn, this.operations.length);
    this.operations.push(operation);
    return standIn;
  }

  #encodeWhere<T extends TableName<D>>(table: T, where: Where<D, T>): Json {
    if (typeof where === 'string' || where instanceof NewRow) return [['_uuid', '==', uuidColumn.encode(where)]];
    return encodeConditions(this.#database, table, where);
  }

  #decodeRow<T extends TableName<D>, K extends ColumnName<D, T>>(table: T, columns: readonly K[], json: unknown): Row<D, T, K> {
    if (!isObject(json)) throw new SeineError('PROTOCOL', `OVSDB: row of ${table} is not an object`);
    const decode = (name: string): [string, unknown] => {
      const column = columnOf(this.#database, table, name);
      return [name, inColumn(table, name, () => column.decode(json[name]))];
    };
    const row: Record<string, unknown> = Object.fromEntries(['_uuid', ...columns].map(decode));
    return row as { readonly [P in K]: ReadOf<ColumnsOf<D, T>[P]> } & { readonly _uuid: Uuid };
  }
}

/** The server's results of a committed transaction. */
export class Committed {
  readonly #results: readonly unknown[];
  readonly #indexes: ReadonlyMap<object, number>;

  constructor(results: readonly unknown[], indexes: ReadonlyMap<object, number>) {
    this.#results = results;
    this.#indexes = indexes;
  }

  /** Returns the UUID of a new row. */
  uuid(row: NewRow): Uuid {
    return uuidColumn.decode(this.#member(row, 'uuid'));
  }

  /** Returns how many rows an `update`, `mutate` or `delete` matched, changed or not. */
  count(operation: RowCount): number {
    const count = this.#member(operation, 'count');
    if (typeof count !== 'number') throw new SeineError('PROTOCOL', 'OVSDB: count is not a number');
    return count;
  }

  rows<R>(found: FoundRows<R>): R[] {
    const rows = this.#member(found, 'rows');
    if (!Array.isArray(rows)) throw new SeineError('PROTOCOL', 'OVSDB: rows is not an array');
    return rows.map((row) => found.read(row));
  }

  #member(standIn: object, name: string): unknown {
    const index = this.#indexes.get(standIn);
    if (index === undefined) throw new SeineError('INVARIANT', 'result of another transaction');
    const result = this.#results[index];
    if (!isObject(result)) throw new SeineError('PROTOCOL', `OVSDB: result of operation ${index} is not an object`);
    return result[name];
  }
}
