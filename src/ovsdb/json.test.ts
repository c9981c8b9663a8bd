import fc from 'fast-check';
import { expect, it } from 'vitest';
import { JsonFramer } from './framer.ts';
import { jsonInteger, parseJson } from './json.ts';

function roundTrip(text: string): unknown {
  return new JsonFramer().push(Buffer.from(text)).map(parseJson)[0];
}

it('carries every 64-bit integer exactly, both ways', () => {
  fc.assert(
    fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
      const read = roundTrip(JSON.stringify({ value: jsonInteger(value) }));
      expect(read).toEqual({ value: Number.isSafeInteger(Number(value)) ? Number(value) : value });
    }),
  );
});

it('keeps other numbers, even next to wide ones', () => {
  expect(roundTrip('{"a":[0.12345678901234567890,1e300,9007199254740993,7]}')).toEqual({
    a: [0.12345678901234568, 1e300, 9007199254740993n, 7],
  });
});

it('reports that a text is not JSON', () => {
  expect(() => roundTrip('{"a":}')).toThrow('[PROTOCOL] JSON-RPC: message at 0 is not JSON');
  expect(() => roundTrip('{]}}')).toThrow('[PROTOCOL]');
});

it('treats __proto__ as a member like any other', () => {
  const read = roundTrip('{"__proto__":{"polluted":1}}');
  expect(Object.getPrototypeOf(read)).toBe(Object.prototype);
  expect(Reflect.get({}, 'polluted')).toBeUndefined();
});

it('spends no time on a number that no column could contain', () => {
  const before = process.cpuUsage();
  expect(roundTrip(`{"a":${'9'.repeat(1_000_000)}}`)).toEqual({ a: Number.POSITIVE_INFINITY });
  expect(process.cpuUsage(before).user).toBeLessThan(1_000_000);
});
