import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../base/net/ip.ts';
import { ifIndex } from '../../netlink/interface-name.ts';
import type { Address } from '../../netlink/routing/addresses.ts';
import { nodePortAddresses, ownAddresses } from './node-addresses.ts';

const [eth, gateway, lo] = [ifIndex(2), ifIndex(7), ifIndex(1)];

function address(text: string, link = eth, more: Partial<Address> = {}): Address {
  return {
    link,
    address: parseIp(text),
    prefixLength: 24,
    scope: 'global',
    duplicateDetection: 'done',
    prefixRoute: 'prefixRoute',
    permanent: true,
    ...more,
  };
}

const texts = (ips: readonly { readonly text: string }[]): string[] => ips.map(({ text }) => text);

it('accepts addresses by which external clients may know the node', () => {
  const all = [
    address('192.0.2.1'),
    address('2001:db8::1', eth, { duplicateDetection: 'tentative' }),
    address('2001:db8::2', eth, { duplicateDetection: 'failed' }),
    address('fe80::1', eth, { scope: 'link' }),
    address('127.0.0.1', lo, { scope: 'host' }),
    address('198.51.100.1', lo),
    address('10.10.0.1', gateway),
  ];
  expect(texts(ownAddresses(all, gateway))).toEqual(['192.0.2.1', '2001:db8::1', '198.51.100.1']);
});

it('opens node ports on all of them, on some networks, or on those of the Node object', () => {
  const own = ['192.0.2.1', '198.51.100.1', '2001:db8::1'].map(parseIp);
  const primary = ['192.0.2.1', '2001:db8::1'];
  expect(nodePortAddresses(own, { among: [], primary })).toBe(own);
  expect(texts(nodePortAddresses(own, { among: ['primary'], primary }))).toEqual(primary);
  expect(texts(nodePortAddresses(own, { among: [parseCidr('198.51.100.0/24'), parseCidr('2001:db8::/32')], primary }))).toEqual([
    '198.51.100.1',
    '2001:db8::1',
  ]);
});
