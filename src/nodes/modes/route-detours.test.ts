import { expect, it } from 'vitest';
import { parseCidr } from '../../base/net/ip.ts';
import { ifIndex } from '../../netlink/interface-name.ts';
import { mainTable, ourProtocol, type Route } from '../../netlink/routing/routes.ts';
import { detourFinder } from './route-detours.ts';

const [bridge, transport, other] = [ifIndex(7), ifIndex(8), ifIndex(9)];
const own = [
  { network: parseCidr('10.10.0.0/16'), dev: 'antrea-gw0', link: bridge },
  { network: parseCidr('10.10.4.0/22'), dev: 'eth0', link: transport },
  { network: parseCidr('fd00:10:0:1::/64'), dev: 'antrea-wg0', link: bridge },
  { network: parseCidr('fd00:10:0:2::/64'), dev: 'gone0', link: undefined },
];

function route(destination: string, link = other, protocol = 4): Route {
  const network = parseCidr(destination);
  const absent = { gateway: undefined, source: undefined, mtu: undefined, onLink: false, nextHops: [], unmodelled: [] };
  return { destination: network, kind: 'unicast', link, metric: 0, table: mainTable, protocol, scope: 0, ...absent };
}

const found = (...others: readonly Route[]): readonly string[] =>
  others.flatMap((other) => detourFinder(own)(other) ?? []).map(({ network, part, dev }) => `${part.text} of ${network.text} by ${dev}`);

it('names routes of other programs to parts of Seine’s networks, by the longest of these', () => {
  expect(found(route('10.10.5.9/32'), route('10.10.9.0/24'), route('fd00:10:0:1:1::/80'))).toEqual([
    '10.10.5.9/32 of 10.10.4.0/22 by eth0',
    '10.10.9.0/24 of 10.10.0.0/16 by antrea-gw0',
    'fd00:10:0:1:1::/80 of fd00:10:0:1::/64 by antrea-wg0',
  ]);
});

it('leaves out routes to other networks, to larger ones, to the same, by the same interface, and Seine’s own', () => {
  expect(
    found(
      route('0.0.0.0/0'),
      route('10.0.0.0/8'),
      route('10.10.4.0/22'),
      route('192.168.77.0/24'),
      route('10.10.9.0/24', bridge),
      route('10.10.5.0/24', other, ourProtocol),
      route('fd00:10:0:2:1::/80'),
    ),
  ).toEqual([]);
});
