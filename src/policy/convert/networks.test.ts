import fc from 'fast-check';
import { expect, it } from 'vitest';
import { cidrContains, cidrOf, ipFromValue, overlaps, parseCidr } from '../../base/net/ip.ts';
import { networksWithout } from './networks.ts';

/** Networks of the last eight bits of an address, so that every address can be tried. */
const network = fc
  .record({ isIpv6: fc.boolean(), address: fc.nat(255), length: fc.integer({ min: 0, max: 8 }) })
  .map(({ isIpv6, address, length }) =>
    isIpv6
      ? cidrOf(ipFromValue('ipv6', (0xfd00n << 112n) + BigInt(address)), 120 + length)
      : cidrOf(ipFromValue('ipv4', (10n << 24n) + BigInt(address)), 24 + length),
  );

it('contains exactly the addresses of the block that no exception contains', () => {
  fc.assert(
    fc.property(network, fc.array(network, { maxLength: 6 }), (block, except) => {
      const networks = networksWithout(
        block.text,
        except.map(({ text }) => text),
      ).map(parseCidr);
      const base = block.family === 'ipv4' ? 10n << 24n : 0xfd00n << 112n;
      for (let at = 0n; at < 256n; at++) {
        const ip = ipFromValue(block.family, base + at);
        const isMeant = cidrContains(block, ip) && !except.some((each) => cidrContains(each, ip));
        expect([ip.text, networks.filter((each) => cidrContains(each, ip)).length]).toEqual([ip.text, isMeant ? 1 : 0]);
      }
    }),
    { numRuns: 200 },
  );
});

it('writes networks in canonical text, by address, and does not divide what no exception touches', () => {
  expect(networksWithout('10.0.0.1/8', ['192.168.0.0/16'])).toEqual(['10.0.0.0/8']);
  expect(networksWithout('FD00::1/64', [])).toEqual(['fd00::/64']);
  expect(networksWithout('0.0.0.0/0', ['128.0.0.0/2'])).toEqual(['0.0.0.0/1', '192.0.0.0/2']);
  expect(networksWithout('10.0.0.0/24', ['10.0.0.0/8'])).toEqual([]);
});

it('has one network for each bit of an exception of one address', () => {
  const networks = networksWithout('::/0', ['2001:db8::1/128']).map(parseCidr);
  expect(networks).toHaveLength(128);
  for (const [at, each] of networks.entries()) for (const other of networks.slice(at + 1)) expect(overlaps(each, other)).toBe(false);
});
