import fc from 'fast-check';
import { expect, it } from 'vitest';
import { haveAddress, packEndpoints, type SliceEndpoint, unpackEndpoints } from './packed-endpoints.ts';

const texts = fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 3 });
const endpoints: fc.Arbitrary<readonly SliceEndpoint[]> = fc.array(
  fc.record(
    {
      addresses: fc.array(fc.oneof(fc.ipV4(), fc.ipV6()), { minLength: 1, maxLength: 3 }),
      ready: fc.boolean(),
      serving: fc.boolean(),
      terminating: fc.boolean(),
      nodeName: fc.string(),
      zone: fc.string(),
      zoneHints: texts,
      nodeHints: texts,
    },
    { requiredKeys: ['addresses', 'ready', 'serving', 'terminating'], noNullPrototype: true },
  ),
  { maxLength: 5 },
);

it('returns packed endpoints, whatever was packed in between', () => {
  fc.assert(
    fc.property(endpoints, endpoints, (some, others) => {
      const [packed, packedOthers] = [packEndpoints(some), packEndpoints(others)];
      expect([unpackEndpoints(packed), unpackEndpoints(packedOthers), unpackEndpoints(packed)]).toEqual([some, others, some]);
      for (const { addresses } of some) for (const address of addresses) expect(haveAddress(packed, new Set([address]))).toBe(true);
    }),
  );
});

it('does not read a partial address, nor a name, as an address', () => {
  const packed = packEndpoints([{ addresses: ['10.10.0.55'], ready: true, serving: true, terminating: false, nodeName: '10.0.0.1' }]);
  const has = (...addresses: readonly string[]) => haveAddress(packed, new Set(addresses));
  expect([has('10.10.0.5', '0.10.0.55', '10.0.0.1'), has(), has('10.0.0.1', '10.10.0.55')]).toEqual([false, false, true]);
});
