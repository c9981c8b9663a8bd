import { SeineError } from '../../base/errors/seine-error.ts';
import type { Json } from '../json.ts';
import type { AtomType } from './atoms.ts';

/**
 * Form of one column's values in a program and on the wire. `R` is the type when read, `W` when written.
 *
 * Source: RFC 7047 section 3.2 `<type>` and section 5.1 `<value>`.
 */
export interface Column<R, W> {
  readonly kind: 'scalar' | 'optional' | 'set' | 'map';
  readonly fallback: R;
  /** @throws SeineError `PROTOCOL` if the value does not fit the type. */
  decode(json: unknown): R;
  /** @throws SeineError `INVALID_INPUT` if the type cannot hold the value, or the schema's constraints forbid it. */
  encode(value: W): Json;
  /**
   * Encodes a value for comparison, to which constraints do not apply.
   *
   * @throws SeineError `INVALID_INPUT` if the type cannot hold the value.
   */
  encodeTerm(value: W): Json;
  /** Encodes the operand of a mutation: elements or pairs for `insert` and `delete`, a number for arithmetic. */
  encodeOperand(operand: unknown): Json;
  /** Encodes the operand of a `delete` by key. */
  encodeKeys(keys: unknown): Json;
  /**
   * Returns the value after a `modify` of `update2` or `update3`, which carries a difference instead of the new value. See ovsdb-server(7)
   * "Update2 Notification".
   */
  change(old: R, difference: unknown): R;
  equal(a: R, b: R): boolean;
}

/** Exactly one value. */
export interface ScalarColumn<R, W> extends Column<R, W> {
  readonly kind: 'scalar';
}

/** Zero or one value. */
export interface OptionalColumn<R, W> extends Column<R | undefined, W | undefined> {
  readonly kind: 'optional';
}

export interface SetColumn<R, W> extends Column<ReadonlySet<R>, Iterable<W>> {
  readonly kind: 'set';
}

export interface MapColumn<RK, RV, WK, WV> extends Column<ReadonlyMap<RK, RV>, Iterable<readonly [WK, WV]>> {
  readonly kind: 'map';
}

export function scalar<R, W>(atom: AtomType<R, W>): ScalarColumn<R, W> {
  return {
    kind: 'scalar',
    fallback: atom.fallback,
    decode: (json) => atom.decode(single(json)),
    encode: (value) => encodeChecked(atom, value),
    encodeTerm: (value) => atom.encode(value),
    encodeOperand: (operand: W) => atom.encode(operand),
    encodeKeys: noKeys,
    change: (_old, difference) => atom.decode(single(difference)),
    equal: Object.is,
  };
}

/** The difference of a column that holds at most one value is the new value. */
export function optional<R, W>(atom: AtomType<R, W>): OptionalColumn<R, W> {
  const decode = (json: unknown): R | undefined => {
    const atoms = elements(json);
    if (atoms.length > 1) throw new SeineError('PROTOCOL', `OVSDB: ${atoms.length} values in a column for one`);
    return atoms.length === 0 ? undefined : atom.decode(atoms[0]);
  };
  return {
    kind: 'optional',
    fallback: undefined,
    decode,
    encode: (value) => ['set', value === undefined ? [] : [encodeChecked(atom, value)]],
    encodeTerm: (value) => encodeSet(atom, value === undefined ? [] : [value]),
    encodeOperand: (values: Iterable<W>) => encodeSet(atom, values),
    encodeKeys: noKeys,
    change: (_old, difference) => decode(difference),
    equal: Object.is,
  };
}

/** Number of elements or pairs that a column holds; `max` is left out where the schema says "unlimited". */
export interface SizeLimits {
  readonly min: 0 | 1;
  readonly max?: number;
}

const anySize: SizeLimits = { min: 0 };

/** Set column. The difference of two sets are the elements that are in only one of them. */
export function set<R, W>(atom: AtomType<R, W>, limits: SizeLimits = anySize): SetColumn<R, W> {
  const empty: ReadonlySet<R> = new Set();
  const decode = (json: unknown): ReadonlySet<R> => {
    const atoms = elements(json);
    return atoms.length === 0 ? empty : new Set(atoms.map((element) => atom.decode(element)));
  };
  return {
    kind: 'set',
    fallback: empty,
    decode,
    encode: (values) => [
      'set',
      sized(
        Array.from(values, (value) => encodeChecked(atom, value)),
        limits,
      ),
    ],
    encodeTerm: (values) => encodeSet(atom, values),
    encodeOperand: (values: Iterable<W>) => encodeSet(atom, values),
    encodeKeys: noKeys,
    change(old, difference) {
      const changed = new Set(old);
      for (const element of decode(difference)) if (!changed.delete(element)) changed.add(element);
      return changed;
    },
    equal: (a, b) => a === b || (a.size === b.size && [...a].every((element) => b.has(element))),
  };
}

/**
 * Map column. The difference of two maps are the pairs whose key is in only one of them, and for keys with two values the new pair. So a
 * pair that already exists is removed, and any other is added.
 */
export function map<RK, RV, WK, WV>(
  key: AtomType<RK, WK>,
  value: AtomType<RV, WV>,
  limits: SizeLimits = anySize,
): MapColumn<RK, RV, WK, WV> {
  const empty: ReadonlyMap<RK, RV> = new Map();
  const decode = (json: unknown): ReadonlyMap<RK, RV> => {
    const pairs = decodePairs(json);
    return pairs.length === 0 ? empty : new Map(pairs.map(([k, v]) => [key.decode(k), value.decode(v)]));
  };
  const encodeTerm = (pairs: Iterable<readonly [WK, WV]>): Json => ['map', Array.from(pairs, ([k, v]) => [key.encode(k), value.encode(v)])];
  return {
    kind: 'map',
    fallback: empty,
    decode,
    encode: (pairs) => [
      'map',
      sized(
        Array.from(pairs, ([k, v]) => [encodeChecked(key, k), encodeChecked(value, v)]),
        limits,
      ),
    ],
    encodeTerm,
    encodeOperand: encodeTerm,
    encodeKeys: (keys: Iterable<WK>) => encodeSet(key, keys),
    change(old, difference) {
      const changed = new Map(old);
      for (const [k, v] of decode(difference)) {
        if (changed.has(k) && Object.is(changed.get(k), v)) changed.delete(k);
        else changed.set(k, v);
      }
      return changed;
    },
    equal: (a, b) => a === b || (a.size === b.size && [...a].every(([k, v]) => b.has(k) && Object.is(b.get(k), v))),
  };
}

/** Map column of at most one pair: like `optional`, its difference is the new value. */
export function optionalPair<RK, RV, WK, WV>(key: AtomType<RK, WK>, value: AtomType<RV, WV>): MapColumn<RK, RV, WK, WV> {
  const pairs = map(key, value, { min: 0, max: 1 });
  return { ...pairs, change: (_old, difference) => pairs.decode(difference) };
}

function noKeys(): never {
  throw new SeineError('INVALID_INPUT', 'only a map has keys to delete');
}

function encodeChecked<W>(atom: AtomType<unknown, W>, value: W): Json {
  const objection = atom.objection?.(value);
  if (objection !== undefined) throw new SeineError('INVALID_INPUT', objection);
  return atom.encode(value);
}

function sized(elements: readonly Json[], { min, max = Number.POSITIVE_INFINITY }: SizeLimits): readonly Json[] {
  if (elements.length >= min && elements.length <= max) return elements;
  throw new SeineError('INVALID_INPUT', `${elements.length} values in a column for ${min} to ${max}`);
}

function encodeSet<W>(atom: AtomType<unknown, W>, values: Iterable<W>): Json {
  return ['set', Array.from(values, (value) => atom.encode(value))];
}

/** Reads a `<set>`: either `["set", [<atom>…]]` or, for one element, the bare atom. */
function elements(json: unknown): readonly unknown[] {
  if (!Array.isArray(json) || json[0] !== 'set') return [json];
  if (json.length !== 2 || !Array.isArray(json[1])) throw new SeineError('PROTOCOL', 'OVSDB: malformed set');
  return json[1];
}

function single(json: unknown): unknown {
  const atoms = elements(json);
  if (atoms.length !== 1) throw new SeineError('PROTOCOL', `OVSDB: ${atoms.length} values in a column for exactly one`);
  return atoms[0];
}

function decodePairs(json: unknown): readonly (readonly unknown[])[] {
  if (!Array.isArray(json) || json.length !== 2 || json[0] !== 'map' || !Array.isArray(json[1])) {
    throw new SeineError('PROTOCOL', 'OVSDB: malformed map');
  }
  const pairs: readonly unknown[] = json[1];
  return pairs.map((pair) => {
    if (Array.isArray(pair) && pair.length === 2) return pair;
    throw new SeineError('PROTOCOL', 'OVSDB: malformed pair in a map');
  });
}
