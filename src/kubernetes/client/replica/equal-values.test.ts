import { isDeepStrictEqual } from 'node:util';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { equalValues } from './equal-values.ts';

const value = fc.jsonValue({ maxDepth: 3 });

it('agrees with Node on values and their changed copies', () => {
  fc.assert(
    fc.property(value, value, (a, b) => {
      expect(equalValues(a, b)).toBe(isDeepStrictEqual(a, b));
      expect(equalValues(a, structuredClone(a))).toBe(true);
      const [one, other] = [
        { kept: a, changed: [b] },
        { kept: structuredClone(a), changed: [a] },
      ];
      expect(equalValues(one, other)).toBe(isDeepStrictEqual(one, other));
    }),
  );
});

it.each([
  [{ a: undefined }, {}],
  [{ a: undefined }, { b: undefined }],
  [{ length: 0 }, []],
  [[], {}],
  [null, {}],
  ['1', 1],
  [JSON.parse('{"__proto__": 1}'), {}],
])('%j and %j are different', (a, b) => {
  expect([equalValues(a, b), equalValues(b, a)]).toEqual([false, false]);
});
