import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Family, ipFromValue } from '../../base/net/ip.ts';
import { packList, unpackList } from './packed-list.ts';

const bits = { ipv4: 32n, ipv6: 128n } as const;

it('returns packed lists', () => {
  const lists = fc.constantFrom<Family>('ipv4', 'ipv6').chain((family) => {
    const ip = fc.bigInt(0n, 2n ** bits[family] - 1n).map((value) => ipFromValue(family, value));
    const endpoint = fc.record({ ip, port: fc.integer({ min: 0, max: 65_535 }) });
    return fc.record({ family: fc.constant(family), list: fc.array(endpoint, { maxLength: 20 }) });
  });
  fc.assert(
    fc.property(lists, ({ family, list }) => {
      expect(unpackList(packList(list), family)).toEqual(list);
    }),
  );
});
