import fc from 'fast-check';
import { expect, it } from 'vitest';
import { CidrUnion } from './cidr-union.ts';
import { addressBits, type Cidr, cidrOf, type Family, ipFromValue, parseCidr } from './ip.ts';

const texts = (union: CidrUnion): string[] => Array.from(union.cover(), ({ text }) => text).toSorted();

it('merges two halves into one network, and splits it again', () => {
  const union = new CidrUnion();
  for (const text of ['10.244.2.0/24', '10.244.3.0/24', '10.244.1.0/24', 'fd00:2::/64', 'fd00:2:0:1::/64']) union.add(parseCidr(text));
  expect(texts(union)).toEqual(['10.244.1.0/24', '10.244.2.0/23', 'fd00:2::/63']);
  union.remove(parseCidr('10.244.2.0/24'));
  union.remove(parseCidr('fd00:2::/64'));
  expect(texts(union)).toEqual(['10.244.1.0/24', '10.244.3.0/24', 'fd00:2:0:1::/64']);
});

it('counts duplicates, and ignores the removal of an unknown network', () => {
  const union = new CidrUnion();
  const cidr = parseCidr('10.244.2.0/24');
  union.add(cidr);
  union.add(cidr);
  union.remove(cidr);
  union.remove(parseCidr('10.244.2.0/25'));
  union.remove(parseCidr('0.0.0.0/0'));
  expect(texts(union)).toEqual(['10.244.2.0/24']);
  union.remove(cidr);
  expect(texts(union)).toEqual([]);
});

/** Network among 32 addresses, so that networks overlap: the varying part of the prefix has at most five bits. */
const network = (family: Family): fc.Arbitrary<Cidr> =>
  fc.record({ length: fc.integer({ min: 0, max: 5 }), host: fc.bigInt({ min: 0n, max: 31n }) }).map(({ length, host }) => {
    const base = family === 'ipv4' ? 0x0a00_0000n : 0xfd00n << 112n;
    return cidrOf(ipFromValue(family, base + host), addressBits(family) - 5 + length);
  });
const step = fc.record({ add: fc.boolean(), cidr: fc.constantFrom<Family[]>('ipv4', 'ipv6').chain(network) });

it('covers the addresses of its networks, with the fewest networks, after any changes', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const union = new CidrUnion();
      const own: Cidr[] = [];
      for (const { add, cidr } of steps) {
        if (add) own.push(cidr);
        const at = own.findIndex(({ text }) => text === cidr.text);
        if (!add && at >= 0) own.splice(at, 1);
        if (add) union.add(cidr);
        else if (at >= 0) union.remove(cidr);
      }
      const cover = [...union.cover()];
      expect(addressesOf(cover)).toEqual([...new Set(addressesOf(own))].toSorted());
      expect(cover.length).toBe(fewest(own));
    }),
    { numRuns: 500 },
  );
});

function addressesOf(cidrs: readonly Cidr[]): string[] {
  return cidrs
    .flatMap(({ family, network: { value }, prefixLength }) =>
      Array.from({ length: 2 ** (addressBits(family) - prefixLength) }, (_, host) => ipFromValue(family, value + BigInt(host)).text),
    )
    .toSorted();
}

/**
 * Smallest number of networks that cover the same addresses. Walks the tree over 32 addresses: a node is complete if both its halves are.
 */
function fewest(own: readonly Cidr[]): number {
  const all = new Set(addressesOf(own));
  const count = (family: Family, first: bigint, size: number): number => {
    const there = Array.from({ length: size }, (_, at) => all.has(ipFromValue(family, first + BigInt(at)).text));
    if (there.every(Boolean)) return 1;
    if (size === 1 || !there.some(Boolean)) return 0;
    return count(family, first, size / 2) + count(family, first + BigInt(size / 2), size / 2);
  };
  return count('ipv4', 0x0a00_0000n, 32) + count('ipv6', 0xfd00n << 112n, 32);
}
