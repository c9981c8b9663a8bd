import { SeineError } from '../../base/errors/seine-error.ts';
import { isObject } from '../json-rpc.ts';

/** RFC 7047 section 3.2 `<database-schema>`, checked and with every default filled in. */
export interface DatabaseSchema {
  readonly name: string;
  readonly version: string;
  readonly tables: ReadonlyMap<string, TableSchema>;
}

export interface TableSchema {
  readonly columns: ReadonlyMap<string, ColumnSchema>;
  /** Set if rows stay without being referenced. */
  readonly isRoot: boolean;
  readonly maxRows: number;
  /** Sets of columns that are unique together. */
  readonly indexes: readonly (readonly string[])[];
}

export interface ColumnSchema {
  readonly key: BaseType;
  /** Set for a map only. */
  readonly value: BaseType | undefined;
  readonly min: 0 | 1;
  /** `Infinity` where the schema says "unlimited". */
  readonly max: number;
  readonly ephemeral: boolean;
  readonly mutable: boolean;
}

export type AtomKind = 'integer' | 'real' | 'boolean' | 'string' | 'uuid';
export type AtomLiteral = number | bigint | string | boolean;

/** `<base-type>`. Limits that the schema leaves out are left out here. */
export interface BaseType {
  readonly kind: AtomKind;
  /** The only values allowed. */
  readonly among?: readonly AtomLiteral[];
  /** Integer or real: the minimum and maximum value. String: the length in characters. */
  readonly from?: number | bigint;
  readonly to?: number | bigint;
  readonly refTable?: string;
  /** A strong reference keeps its row, and must not dangle; a weak one is removed with its row. */
  readonly refType?: 'strong' | 'weak';
}

const maxUnlimited = Number.POSITIVE_INFINITY;

/**
 * Reads a schema: an `.ovsschema` file, or the answer of `get_schema`.
 *
 * @param json result of `parseJson`
 * @throws SeineError `INVALID_INPUT` with the path in the schema, if it is invalid.
 */
export function parseSchema(json: unknown): DatabaseSchema {
  const { name, version = '', tables } = object(json, 'schema');
  return {
    name: identifier(name, 'name'),
    version: text(version, 'version'),
    tables: entries(tables, 'tables', (table, path) => parseTable(table, path)),
  };
}

function parseTable(json: unknown, path: string): TableSchema {
  const { columns, isRoot = false, maxRows = maxUnlimited, indexes = [] } = object(json, path);
  const read = entries(columns, path, (column, columnPath) => parseColumn(column, columnPath));
  return {
    columns: read,
    isRoot: flag(isRoot, `${path} isRoot`),
    maxRows: amount(maxRows, `${path} maxRows`),
    indexes: list(indexes, `${path} indexes`).map((index) => list(index, `${path} index`).map((column) => known(column, read, path))),
  };
}

/** `<column-schema>` and its `<type>`: an atomic type, or an object with key, value, min and max. */
function parseColumn(json: unknown, path: string): ColumnSchema {
  const { type, ephemeral = false, mutable = true } = object(json, path);
  const { key = type, value, min = 1, max = 1 } = typeof type === 'string' ? {} : object(type, path);
  if (min !== 0 && min !== 1) throw bad(`${path} min is neither 0 nor 1`);
  return {
    key: parseBaseType(key, path),
    value: value === undefined ? undefined : parseBaseType(value, path),
    min,
    max: max === 'unlimited' ? maxUnlimited : amount(max, `${path} max`),
    ephemeral: flag(ephemeral, `${path} ephemeral`),
    mutable: flag(mutable, `${path} mutable`),
  };
}

function parseBaseType(json: unknown, path: string): BaseType {
  if (typeof json === 'string') return { kind: atomKind(json, path) };
  const base = object(json, path);
  const kind = atomKind(base['type'], path);
  const [fromName, toName] = limitNames[kind];
  const from = numeric(base[fromName], `${path} ${fromName}`);
  const to = numeric(base[toName], `${path} ${toName}`);
  const { refTable, refType } = base;
  return {
    kind,
    ...(base['enum'] === undefined ? {} : { among: enumValues(base['enum'], path) }),
    ...(from === undefined ? {} : { from }),
    ...(to === undefined ? {} : { to }),
    ...(refTable === undefined ? {} : { refTable: identifier(refTable, path), refType: refType === 'weak' ? 'weak' : 'strong' }),
  };
}

const noLimit = '';
const limitNames = {
  integer: ['minInteger', 'maxInteger'],
  real: ['minReal', 'maxReal'],
  string: ['minLength', 'maxLength'],
  boolean: [noLimit, noLimit],
  uuid: [noLimit, noLimit],
} as const satisfies Record<AtomKind, readonly [string, string]>;

function atomKind(json: unknown, path: string): AtomKind {
  if (typeof json === 'string' && Object.hasOwn(limitNames, json)) return json as AtomKind;
  throw bad(`${path}: ${JSON.stringify(json) ?? 'nothing'} is not a type`);
}

/** One value, or `["set", […]]`. */
function enumValues(json: unknown, path: string): readonly AtomLiteral[] {
  const values = Array.isArray(json) && json[0] === 'set' ? list(json[1], `${path} enum`) : [json];
  return values.map((value) => {
    if (typeof value === 'string' || typeof value === 'number' || typeof value === 'bigint' || typeof value === 'boolean') return value;
    throw bad(`${path} enum contains something else than values`);
  });
}

function entries<T>(json: unknown, path: string, read: (json: unknown, path: string) => T): ReadonlyMap<string, T> {
  const prefix = path === 'tables' ? '' : `${path}.`;
  return new Map(Object.entries(object(json, path)).map(([name, value]) => [identifier(name, path), read(value, `${prefix}${name}`)]));
}

function known(json: unknown, columns: ReadonlyMap<string, unknown>, path: string): string {
  const column = text(json, `${path} index`);
  if (!columns.has(column)) throw bad(`${path} has an index over ${JSON.stringify(column)}, which is not a column`);
  return column;
}

/** Reads an `<id>`. `__proto__` is refused, because it has a meaning of its own in JavaScript. */
function identifier(json: unknown, path: string): string {
  if (typeof json === 'string' && /^[a-zA-Z_][a-zA-Z0-9_]*$/.test(json) && json !== '__proto__') return json;
  throw bad(`${path}: ${JSON.stringify(json) ?? 'nothing'} is not a name`);
}

function numeric(json: unknown, path: string): number | bigint | undefined {
  if (json === undefined || typeof json === 'number' || typeof json === 'bigint') return json;
  throw bad(`${path} is not a number`);
}

function amount(json: unknown, path: string): number {
  if (typeof json === 'number' && json >= 1) return json;
  throw bad(`${path} is not a number above 0`);
}

function flag(json: unknown, path: string): boolean {
  if (typeof json === 'boolean') return json;
  throw bad(`${path} is neither true nor false`);
}

function object(json: unknown, path: string): Readonly<Record<string, unknown>> {
  if (isObject(json)) return json;
  throw bad(`${path} is not an object`);
}

function list(json: unknown, path: string): readonly unknown[] {
  if (Array.isArray(json)) return json;
  throw bad(`${path} is not an array`);
}

function text(json: unknown, path: string): string {
  if (typeof json === 'string') return json;
  throw bad(`${path} is not a string`);
}

function bad(what: string): SeineError {
  return new SeineError('INVALID_INPUT', `schema: ${what}`);
}
