import fc from 'fast-check';
import { expect, it } from 'vitest';
import { portPrefixes } from './port-prefixes.ts';

const port = fc.oneof(fc.integer({ min: 0, max: 65_535 }), fc.constantFrom(0, 1, 1023, 1024, 32_767, 32_768, 65_534, 65_535));

it('yields exactly the ports of a range, each once, in 30 masks at most', () => {
  fc.assert(
    fc.property(port, port, (a, b) => {
      const [first, last] = [Math.min(a, b), Math.max(a, b)];
      const prefixes = portPrefixes({ first, last });
      expect(prefixes.length).toBeLessThanOrEqual(30);
      const ends = prefixes.map(({ value, mask }) => [value, value + 65_535 - mask] as const);
      // Aligned, and one after the other from the first port to the last.
      expect(prefixes.every(({ value, mask }) => (value & mask) === value)).toBe(true);
      expect(ends.map(([from]) => from)).toEqual([first, ...ends.slice(0, -1).map(([, to]) => to + 1)]);
      expect(ends.at(-1)?.[1]).toBe(last);
    }),
  );
});

it('yields one for all ports, and one for one', () => {
  expect(portPrefixes({ first: 0, last: 65_535 })).toEqual([{ value: 0, mask: 0 }]);
  expect(portPrefixes({ first: 80, last: 80 })).toEqual([{ value: 80, mask: 65_535 }]);
  expect(portPrefixes({ first: 1, last: 65_534 })).toHaveLength(30);
});
