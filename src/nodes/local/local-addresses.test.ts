import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import type { Address } from '../../netlink/routing/addresses.ts';
import { localAddresses } from './local-addresses.ts';

const index = (number: number): IfIndex => number as IfIndex;
const links = ['lo', 'eth0', 'nodelocaldns', 'kube-ipvs0', 'antrea-gw0'].map((name, place) => ({ name, index: index(place + 1) }));

interface More {
  readonly scope?: 'global' | 'host' | 'link';
  readonly failed?: boolean;
}

function texts(...addresses: readonly (readonly [link: number, text: string, more?: More])[]): string[] {
  const read = addresses.map(([link, text, more = {}]) => {
    const { scope = 'global', failed = false }: More = more;
    const [address = '', prefix] = text.split('/');
    const duplicateDetection: Address['duplicateDetection'] = failed ? 'failed' : 'done';
    return { link: index(link), address: parseIp(address), prefixLength: Number(prefix), scope, duplicateDetection };
  });
  return localAddresses(read, links, 'antrea-gw0').map(({ text }) => text);
}

it('are the addresses of NodeLocal DNSCache, and the others of the node, in one order', () => {
  const cache = [
    [3, '169.254.20.10/32'],
    [3, '10.96.0.10/32'],
    [3, 'fd00:96::a/128'],
  ] as const;
  const node = [
    [2, '192.168.77.1/24'],
    [1, '203.0.113.9/32'],
    [2, 'fd00:77::1/64'],
  ] as const;
  const all = ['10.96.0.10', '169.254.20.10', '192.168.77.1', '203.0.113.9', 'fd00:77::1', 'fd00:96::a'];
  expect(texts(...cache, ...node)).toEqual(all);
  expect(texts(...node, ...cache, ...node)).toEqual(all);
});

it('exclude link-local and loopback addresses, those of Services that kube-proxy binds, and duplicates', () => {
  expect(
    texts([2, '169.254.7.8/16'], [2, 'fe80::1/64', { scope: 'link' }], [2, 'fe80::2/128'], [1, '127.0.0.1/8', { scope: 'host' }]),
  ).toEqual([]);
  expect(texts([1, '127.0.0.53/32'], [4, '10.96.0.1/32'], [2, 'fd00:77::1/64', { failed: true }])).toEqual([]);
});

it('are at most 64', () => {
  const many = Array.from({ length: 300 }, (_, number) => [2, `198.51.100.${number % 256}/24`] as const);
  expect(texts(...many)).toHaveLength(64);
});

it('exclude addresses that another program added to the gateway: the agent removes them without an event', () => {
  expect(texts([5, '10.244.0.1/22'], [5, '192.0.2.7/24'], [2, '192.168.77.1/24'])).toEqual(['192.168.77.1']);
});
