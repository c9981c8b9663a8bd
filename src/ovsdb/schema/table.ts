import type { NewRow, Uuid } from './atoms.ts';
import { uuid } from './atoms.ts';
import { type Column, type MapColumn, type OptionalColumn, type ScalarColumn, type SetColumn, scalar } from './columns.ts';

export type Columns = Readonly<Record<string, Column<unknown, unknown>>>;

/** Description of one table. A column that the server does not have reads as its fallback. */
export interface Table<C extends Columns = Columns> {
  /** Set if rows stay without being referenced. A row of any other table is deleted, without an error, when nothing refers to it. */
  readonly root: boolean;
  /** Sets of columns that are unique together. */
  readonly indexes: readonly (readonly string[])[];
  readonly columns: C;
}

export interface Database<T extends Readonly<Record<string, Table>> = Readonly<Record<string, Table>>> {
  readonly name: string;
  /** Version of the schema that the description was made from. */
  readonly version: string;
  readonly tables: T;
}

export type TableName<D extends Database> = keyof D['tables'] & string;
export type ColumnsOf<D extends Database, T extends TableName<D>> = D['tables'][T]['columns'];
export type ColumnName<D extends Database, T extends TableName<D>> = keyof ColumnsOf<D, T> & string;

export type ReadOf<C> = C extends Column<infer R, infer _W> ? R : never;
export type WriteOf<C> = C extends Column<infer _R, infer W> ? W : never;

/** Row as it is read: the selected columns, and its UUID. Never modified; a changed row is another object. */
export type Row<D extends Database, T extends TableName<D>, K extends ColumnName<D, T> = ColumnName<D, T>> = {
  readonly [P in K]: ReadOf<ColumnsOf<D, T>[P]>;
} & { readonly _uuid: Uuid };

/** Values to write. Columns left out keep their value, or get the fallback in a new row. */
export type RowValues<D extends Database, T extends TableName<D>> = {
  readonly [P in ColumnName<D, T>]?: WriteOf<ColumnsOf<D, T>[P]>;
};

export type ConditionFunction = '==' | '!=' | '<' | '<=' | '>' | '>=' | 'includes' | 'excludes';

/** `<condition>` of RFC 7047 section 5.1. */
export type Condition<D extends Database, T extends TableName<D>> =
  | { readonly [P in ColumnName<D, T>]: readonly [column: P, test: ConditionFunction, value: WriteOf<ColumnsOf<D, T>[P]>] }[ColumnName<
      D,
      T
    >]
  | readonly [column: '_uuid', test: '==' | '!=', value: Uuid | NewRow<T>];

type ArithmeticMutator = '+=' | '-=' | '*=' | '/=' | '%=';

type MutationOfColumn<P extends string, C> =
  C extends MapColumn<infer _RK, infer _RV, infer WK, infer WV>
    ?
        | readonly [column: P, mutator: 'insert' | 'delete', pairs: Iterable<readonly [WK, WV]>]
        | readonly [column: P, mutator: 'delete keys', keys: Iterable<WK>]
    : C extends SetColumn<infer _R, infer W>
      ? readonly [column: P, mutator: 'insert' | 'delete', values: Iterable<W>]
      : C extends OptionalColumn<infer _R, infer W>
        ? readonly [column: P, mutator: 'insert' | 'delete', values: Iterable<W>]
        : C extends ScalarColumn<infer _R, infer W>
          ? W extends number | bigint
            ? readonly [column: P, mutator: ArithmeticMutator, operand: W]
            : never
          : never;

/**
 * `<mutation>` of RFC 7047 section 5.1. `insert` into a map never overwrites a key; `delete` removes a pair only if the value matches,
 * `delete keys` with any value.
 */
export type Mutation<D extends Database, T extends TableName<D>> = {
  [P in ColumnName<D, T>]: MutationOfColumn<P, ColumnsOf<D, T>[P]>;
}[ColumnName<D, T>];

export function database<const T extends Readonly<Record<string, Table>>>(name: string, version: string, tables: T): Database<T> {
  return { name, version, tables };
}

/** Column that every table has. */
export const uuidColumn = scalar(uuid);
