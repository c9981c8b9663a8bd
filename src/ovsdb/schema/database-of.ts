import { type AtomType, boolean, integer, real, smallInteger, string, uuid } from './atoms.ts';
import { type Column, map, optional, optionalPair, scalar, set } from './columns.ts';
import type { AtomLiteral, BaseType, ColumnSchema, DatabaseSchema, TableSchema } from './database-schema.ts';
import { among, atLeast, atMost, between, ofLength } from './limits.ts';
import type { Database, Table } from './table.ts';

/**
 * Creates tables from a schema that was read at run time: for a database without generated tables. Rows are like those of generated tables,
 * but without static types.
 */
export function databaseOf(schema: DatabaseSchema): Database {
  return { name: schema.name, version: schema.version, tables: fromEntries(schema.tables, tableOf) };
}

function tableOf({ columns, isRoot, indexes }: TableSchema): Table {
  return { root: isRoot, indexes, columns: fromEntries(columns, columnOf) };
}

function columnOf({ key, value, min, max }: ColumnSchema): Column<unknown, unknown> {
  const atom = atomOf(key);
  const limits = Number.isFinite(max) ? { min, max } : { min };
  if (value !== undefined) return widen(max === 1 ? optionalPair(atom, atomOf(value)) : map(atom, atomOf(value), limits));
  if (max !== 1) return widen(set(atom, limits));
  return min === 0 ? widen(optional(atom)) : widen(scalar(atom));
}

/** Reports whether an integer is bounded below 2^53 on both sides (`number`); all others are `bigint`. */
export function isSmall({ from, to }: BaseType): boolean {
  return isSafe(from) && isSafe(to);
}

function isSafe(limit: number | bigint | undefined): boolean {
  return limit !== undefined && Number.isSafeInteger(Number(limit));
}

function atomOf(base: BaseType): AtomType<unknown> {
  switch (base.kind) {
    case 'integer':
      return isSmall(base) ? widenAtom(numberAtom(smallInteger, base, Number)) : widenAtom(numberAtom(integer, base, BigInt));
    case 'real':
      return widenAtom(numberAtom(real, base, Number));
    case 'string':
      return widenAtom(stringAtom(base));
    case 'boolean':
      return widenAtom(boolean);
    case 'uuid':
      return widenAtom(uuid);
  }
}

function numberAtom<T extends number | bigint>(atom: AtomType<T>, base: BaseType, literal: (value: number | bigint) => T): AtomType<T> {
  const { from, to } = base;
  const values = base.among?.filter((value) => typeof value === 'number' || typeof value === 'bigint');
  if (values !== undefined) return among(atom, ...values.map(literal));
  if (from !== undefined && to !== undefined) return between(atom, literal(from), literal(to));
  if (from !== undefined) return atLeast(atom, literal(from));
  return to === undefined ? atom : atMost(atom, literal(to));
}

function stringAtom({ among: values, from, to }: BaseType): AtomType<string> {
  if (values !== undefined) return among(string, ...values.filter(isString));
  return from === undefined && to === undefined ? string : ofLength(string, Number(from ?? 0), Number(to ?? Number.POSITIVE_INFINITY));
}

function isString(value: AtomLiteral): value is string {
  return typeof value === 'string';
}

/** Users of a description created at run time write and read values without static types. */
function widenAtom(atom: AtomType<never> | AtomType<unknown>): AtomType<unknown> {
  return atom as AtomType<unknown>;
}

function widen(column: Column<never, never> | Column<unknown, never>): Column<unknown, unknown> {
  return column as Column<unknown, unknown>;
}

function fromEntries<T, U>(from: ReadonlyMap<string, T>, make: (value: T) => U): Readonly<Record<string, U>> {
  return Object.fromEntries([...from].map(([name, value]) => [name, make(value)]));
}
