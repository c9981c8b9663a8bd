import type { AnyRow } from '../../ovsdb/table-replica.ts';
import { safeLine } from '../escape.ts';

/** Row of any database: strings, numbers, sets, maps, or nothing in an optional column. */
type Value = unknown;

/** `JSON.rawJSON`, which no TypeScript library has yet: writes integers of 64 bits exactly. */
const rawJson: (text: string) => unknown = Reflect.get(JSON, 'rawJSON');

/** Formats a value like `ovs-vsctl`, on one line. */
export function valueText(value: Value): string {
  if (value === undefined) return '[]';
  if (value instanceof Map) return `{${sortedTexts(value, ([key, held]) => `${valueText(key)}=${valueText(held)}`).join(', ')}}`;
  if (value instanceof Set) return `[${sortedTexts(value, valueText).join(', ')}]`;
  if (typeof value === 'string') return safeLine(/^[\w.:/@%+-]+$/.test(value) ? value : JSON.stringify(value));
  return String(value);
}

/** `column=value` of every column that is not empty. */
export function rowText(row: AnyRow): string {
  const columns = Object.entries(row).filter(([name, value]) => name !== '_uuid' && !isNothing(value));
  return columns.map(([name, value]) => `${name}=${valueText(value)}`).join(' ');
}

/** Returns the names of the columns that differ. */
export function changedColumns(before: AnyRow, after: AnyRow): readonly string[] {
  return Object.keys(after).filter((name) => valueText(before[name]) !== valueText(after[name]));
}

/** Converts columns of a row for a program: sets as arrays, maps as objects, nothing as null, integers exact. */
export function rowJson(row: AnyRow, columns: readonly string[]): Readonly<Record<string, unknown>> {
  return Object.fromEntries(columns.map((name) => [name, valueJson(row[name])]));
}

/** Formats one line of JSON; characters that a terminal interprets are escaped, which changes nothing for a program. */
export function jsonLine(value: unknown): string {
  return safeLine(JSON.stringify(value));
}

export function columnsOf(row: AnyRow): readonly string[] {
  return Object.keys(row).filter((name) => name !== '_uuid');
}

function valueJson(value: Value): unknown {
  if (value === undefined) return null;
  if (value instanceof Map) return Object.fromEntries(sortedPairs(value).map(([key, held]) => [key, valueJson(held)]));
  if (value instanceof Set) return Array.from(value, valueJson).toSorted(byText);
  return typeof value === 'bigint' ? exact(value) : value;
}

function exact(value: bigint): unknown {
  return Number.isSafeInteger(Number(value)) ? Number(value) : rawJson(String(value));
}

function sortedPairs(map: ReadonlyMap<unknown, unknown>): (readonly [string, unknown])[] {
  return Array.from(map, ([key, value]) => [String(key), value] as const).toSorted(([a], [b]) => byText(a, b));
}

function sortedTexts<T>(values: Iterable<T>, write: (value: T) => string): string[] {
  return Array.from(values, write).toSorted(byText);
}

/** Compares numbers by value, other values as text. */
function byText(a: unknown, b: unknown): number {
  if (typeof a === 'number' && typeof b === 'number') return a - b;
  const [left, right] = [String(a), String(b)];
  return left < right ? -1 : left > right ? 1 : 0;
}

function isNothing(value: Value): boolean {
  if (value instanceof Map || value instanceof Set) return value.size === 0;
  return value === undefined || value === '';
}
