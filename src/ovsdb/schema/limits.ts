import type { AtomType, Known } from './atoms.ts';
import { string } from './atoms.ts';

/*
 * Constraints of RFC 7047 section 3.2 `<base-type>`. They apply to values that are written: the program gets the error before the value is
 * sent, with table and column. Values that are read are accepted, because a newer server may allow more.
 */

/** Number of the range, ends included. */
export function between<R, W extends number | bigint>(atom: AtomType<R, W>, from: W, to: W): AtomType<R, W> {
  return limited(atom, (value) => (value < from || value > to ? `${value} is not within ${from} to ${to}` : undefined));
}

export function atLeast<R, W extends number | bigint>(atom: AtomType<R, W>, from: W): AtomType<R, W> {
  return limited(atom, (value) => (value < from ? `${value} is less than ${from}` : undefined));
}

export function atMost<R, W extends number | bigint>(atom: AtomType<R, W>, to: W): AtomType<R, W> {
  return limited(atom, (value) => (value > to ? `${value} is more than ${to}` : undefined));
}

/** One of these values. */
export function among<R, W extends number | bigint | string | boolean>(atom: AtomType<R, W>, ...values: readonly W[]): AtomType<R, W> {
  const allowed: ReadonlySet<unknown> = new Set(values);
  return limited(atom, (value) => (allowed.has(value) ? undefined : `${JSON.stringify(String(value))} is none of ${values.join(', ')}`));
}

/** String that the schema's `enum` limits to values that the compiler knows. */
export function oneOf<const K extends string>(...values: readonly K[]): AtomType<Known<K>, K> {
  return among(string, ...values) as AtomType<Known<K>, K>;
}

/** String of a length in the range (Unicode code points, as the server counts). */
export function ofLength(atom: AtomType<string>, from: number, to: number): AtomType<string> {
  return limited(atom, (value) => {
    const length = [...value].length;
    return length < from || length > to ? `a string of ${length} characters, not of ${from} to ${to}` : undefined;
  });
}

function limited<R, W>(atom: AtomType<R, W>, objection: (value: W) => string | undefined): AtomType<R, W> {
  return { ...atom, objection: (value) => atom.objection?.(value) ?? objection(value) };
}
