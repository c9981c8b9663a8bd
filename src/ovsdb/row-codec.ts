import { SeineError } from '../base/errors/seine-error.ts';
import type { Json } from './json.ts';
import type { Column } from './schema/columns.ts';
import { type Condition, type Database, type TableName, uuidColumn } from './schema/table.ts';

/** @throws SeineError `INVALID_INPUT` if there is no such column. */
export function columnOf(database: Database, table: string, name: string): Column<unknown, unknown> {
  const tables = database.tables;
  const columns = Object.hasOwn(tables, table) ? tables[table]?.columns : undefined;
  if (name === '_uuid' && columns !== undefined) return uuidColumn;
  const column = columns !== undefined && Object.hasOwn(columns, name) ? columns[name] : undefined;
  if (column === undefined) throw new SeineError('INVALID_INPUT', `no column ${table}.${name} in database ${database.name}`);
  return column;
}

/**
 * `<row>` of RFC 7047 section 5.1.
 *
 * @throws SeineError `INVALID_INPUT` with the table and the column, if a value does not fit.
 */
export function encodeRow(database: Database, table: string, values: Readonly<Record<string, unknown>>): Json {
  return eachColumn(database, table, values, (column, value) => column.encode(value));
}

/** Like {@link encodeRow}, for a row to compare with: constraints do not bind it. */
export function encodeTerms(database: Database, table: string, values: Readonly<Record<string, unknown>>): Json {
  return eachColumn(database, table, values, (column, value) => column.encodeTerm(value));
}

/** `[<condition>*]` of RFC 7047 section 5.1. */
export function encodeConditions<D extends Database, T extends TableName<D>>(
  database: D,
  table: T,
  conditions: readonly Condition<D, T>[],
): readonly Json[] {
  return conditions.map(([name, test, value]) => {
    const column = columnOf(database, table, name);
    return [name, test, inColumn(table, name, () => column.encodeTerm(value))];
  });
}

function eachColumn(
  database: Database,
  table: string,
  values: Readonly<Record<string, unknown>>,
  encode: (column: Column<unknown, unknown>, value: unknown) => Json,
): Json {
  const encoded = Object.entries(values).map(([name, value]): [string, Json] => {
    const column = columnOf(database, table, name);
    return [name, inColumn(table, name, () => encode(column, value))];
  });
  return Object.fromEntries(encoded);
}

/** Runs an encoder or a decoder, and adds the column to its error. */
export function inColumn<T>(table: string, column: string, work: () => T): T {
  try {
    return work();
  } catch (thrown) {
    throw located(thrown, table, column);
  }
}

/** Adds the column, and optionally the row, to an error. */
export function located(thrown: unknown, table: string, column: string, row?: string): unknown {
  if (!(thrown instanceof SeineError)) return thrown;
  const message = thrown.message.slice(`[${thrown.code}] `.length);
  const place = row === undefined ? `${table}.${column}` : `${table}.${column} of row ${row}`;
  return new SeineError(thrown.code, `${place}: ${message}`, { context: { ...thrown.context, table, column }, cause: thrown });
}
