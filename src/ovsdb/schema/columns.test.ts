import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { boolean, integer, NewRow, parseUuid, real, ref, smallInteger, string, uuid } from './atoms.ts';
import { map, optional, optionalPair, scalar, set } from './columns.ts';
import { oneOf } from './limits.ts';

const someUuid = parseUuid('a696e205-4390-4d8c-93b0-af1e19fc2c71');

describe('atoms', () => {
  it('convert each type both ways', () => {
    expect(scalar(integer).encode(9_007_199_254_740_991n)).toBe(9_007_199_254_740_991);
    expect(JSON.stringify(scalar(integer).encode(-(2n ** 63n)))).toBe('-9223372036854775808');
    expect(scalar(integer).decode(5)).toBe(5n);
    expect(scalar(integer).decode(2n ** 63n - 1n)).toBe(9_223_372_036_854_775_807n);
    expect(scalar(smallInteger).decode(-1)).toBe(-1);
    expect(scalar(real).decode(9_007_199_254_740_993n)).toBe(9_007_199_254_740_992);
    expect(scalar(boolean).decode(true)).toBe(true);
    expect(scalar(oneOf('secure', 'standalone')).encode('secure')).toBe('secure');
    expect(scalar(uuid).decode(['uuid', someUuid])).toBe(someUuid);
    expect(scalar(ref('Port')).encode(someUuid)).toEqual(['uuid', someUuid]);
    expect(scalar(ref('Port')).encode(new NewRow('Port', 'row1'))).toEqual(['named-uuid', 'row1']);
  });

  it.each([
    [integer, 1.5],
    [integer, '1'],
    [smallInteger, 2n ** 60n],
    [smallInteger, 0.5],
    [real, '1'],
    [real, Number.POSITIVE_INFINITY],
    [boolean, 0],
    [string, 1],
    [string, null],
    [uuid, someUuid],
    [uuid, ['uuid', 'x']],
    [uuid, ['named-uuid', 'x']],
    [uuid, ['uuid', someUuid.toUpperCase()]],
  ])('of the wrong type are refused, %#', (atom, json) => {
    expect(() => atom.decode(json)).toThrow('[PROTOCOL]');
  });

  it('reject values that the server could not take', () => {
    expect(() => integer.encode(2n ** 63n)).toThrow('[INVALID_INPUT]');
    expect(() => smallInteger.encode(1.5)).toThrow('[INVALID_INPUT]');
    expect(() => real.encode(Number.NaN)).toThrow('[INVALID_INPUT]');
    expect(() => string.encode('a\0b')).toThrow('[INVALID_INPUT]');
    expect(() => string.encode('\ud83d')).toThrow('[INVALID_INPUT]');
    expect(string.encode('😀')).toBe('😀');
  });
});

describe('columns', () => {
  it('read one value, bare or as a set of one', () => {
    expect(scalar(string).decode(['set', ['x']])).toBe('x');
    expect(optional(string).decode('x')).toBe('x');
    expect(optional(string).decode(['set', []])).toBeUndefined();
    expect(set(string).decode('x')).toEqual(new Set(['x']));
    expect(set(uuid).decode(['uuid', someUuid])).toEqual(new Set([someUuid]));
  });

  it('read sets and maps', () => {
    expect(set(smallInteger).decode(['set', [3, 1]])).toEqual(new Set([3, 1]));
    expect(map(string, integer).decode(['map', [['rx', 9_007_199_254_740_993n]]])).toEqual(new Map([['rx', 9_007_199_254_740_993n]]));
  });

  it.each([
    [scalar(string), ['set', []]],
    [optional(string), ['set', ['a', 'b']]],
    [set(string), ['set', 'a']],
    [set(string), ['set', [1]]],
    [map(string, string), ['set', []]],
    [map(string, string), ['map', [['a']]]],
    [map(string, string), {}],
  ])('reject values that do not fit, %#', (column, json) => {
    expect(() => column.decode(json)).toThrow('[PROTOCOL]');
  });

  it('write values, and operands of mutations', () => {
    expect(optional(string).encode(undefined)).toEqual(['set', []]);
    expect(optional(string).encodeOperand(['x'])).toEqual(['set', ['x']]);
    expect(set(string).encode(new Set(['x']))).toEqual(['set', ['x']]);
    expect(map(string, smallInteger).encode(new Map([['a', 1]]))).toEqual(['map', [['a', 1]]]);
    expect(map(string, smallInteger).encodeKeys(['a'])).toEqual(['set', ['a']]);
    expect(() => set(string).encodeKeys(['a'])).toThrow('only a map');
  });
});

/** The differences of ovsdb-server(7), computed the plain way. */
describe('a difference turns the old value into the new', () => {
  const strings = fc.uniqueArray(fc.string());

  it('of a set', () => {
    const column = set(string);
    fc.assert(
      fc.property(strings, strings, (before, after) => {
        const difference = [...before.filter((x) => !after.includes(x)), ...after.filter((x) => !before.includes(x))];
        const changed = column.change(new Set(before), ['set', difference]);
        expect(changed).toEqual(new Set(after));
        expect(column.equal(changed, new Set(after))).toBe(true);
        expect(column.equal(new Set(before), new Set(after))).toBe(difference.length === 0);
      }),
    );
  });

  it('of a map', () => {
    const column = map(string, string);
    const pairs = fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.constantFrom('1', '2', '3'));
    fc.assert(
      fc.property(pairs, pairs, (before, after) => {
        const gone = Object.entries(before).filter(([key]) => !(key in after));
        const come = Object.entries(after).filter(([key, value]) => before[key] !== value);
        const changed = column.change(new Map(Object.entries(before)), ['map', [...gone, ...come]]);
        expect(changed).toEqual(new Map(Object.entries(after)));
        expect(column.equal(new Map(Object.entries(before)), changed)).toBe(gone.length + come.length === 0);
      }),
    );
  });

  it('of a column for at most one value, where it is the new value', () => {
    expect(scalar(string).change('a', 'b')).toBe('b');
    expect(optional(string).change('a', ['set', []])).toBeUndefined();
    expect(optional(string).change(undefined, 'b')).toBe('b');
    expect(optionalPair(string, string).change(new Map([['a', '1']]), ['map', [['a', '1']]])).toEqual(new Map([['a', '1']]));
  });

  it('without touching the old one', () => {
    const before = new Set(['a']);
    set(string).change(before, ['set', ['a', 'b']]);
    expect(before).toEqual(new Set(['a']));
  });
});
