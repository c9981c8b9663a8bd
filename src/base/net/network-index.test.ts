import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cidrContains, cidrOf, ipFromValue, overlaps, parseCidr, parseIp } from './ip.ts';
import { containedInMany, NetworkMap, overlapsAny } from './network-index.ts';

it('contains an address exactly if one of the networks does', () => {
  const texts = ['0.0.0.0/0', '10.0.0.0/8', '10.1.2.3/32', '224.0.0.0/4', '::/0', 'fd00::/8', '::1/128'];
  const asked = ['0.0.0.0', '10.1.2.3', '11.0.0.0', '239.255.255.255', '240.0.0.0', '::', '::1', 'fd00::1', 'fe80::1'].map(parseIp);
  for (let which = 0; which < 2 ** texts.length; which++) {
    const networks = texts.filter((_, at) => (which >> at) & 1).map(parseCidr);
    const isIn = containedInMany(networks);
    for (const ip of asked) expect(isIn(ip)).toBe(networks.some((network) => cidrContains(network, ip)));
  }
});

it('finds the values of all networks that contain an address', () => {
  const texts = ['0.0.0.0/0', '10.0.0.0/8', '10.1.2.3/32', '10.1.2.3/32', '::/0', 'fd00::/8', '::1/128'];
  const asked = ['0.0.0.0', '10.1.2.3', '11.0.0.0', '255.255.255.255', '::', '::1', 'fd00::1', 'fe80::1'].map(parseIp);
  const map = new NetworkMap<number>();
  for (const [at, text] of texts.entries()) map.add(parseCidr(text), at);
  for (const ip of asked)
    expect([...map.at(ip)].sort()).toEqual([...texts.keys()].filter((at) => cidrContains(parseCidr(texts[at] ?? ''), ip)));
});

it('overlaps a network exactly if one of the networks does', () => {
  // Few bits, so that networks meet; at both ends of the address space.
  const network = fc
    .tuple(fc.constantFrom('ipv4' as const, 'ipv6' as const), fc.bigInt(0n, 63n), fc.nat(8), fc.boolean())
    .map(([family, low, shorter, isHigh]) => {
      const bits = family === 'ipv4' ? 32 : 128;
      const value = isHigh ? (1n << BigInt(bits)) - 64n + low : low;
      return cidrOf(ipFromValue(family, value), bits - shorter);
    });
  fc.assert(
    fc.property(fc.array(network, { maxLength: 8 }), network, (networks, asked) => {
      expect(overlapsAny(networks)(asked)).toBe(networks.some((each) => overlaps(each, asked)));
    }),
    { numRuns: 2_000 },
  );
  expect([overlapsAny([parseCidr('0.0.0.0/0')])(parseCidr('10.0.0.0/8')), overlapsAny([parseCidr('::1/128')])(parseCidr('::/0'))]).toEqual([
    true,
    true,
  ]);
});
