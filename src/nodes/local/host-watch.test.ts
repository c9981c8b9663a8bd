import { expect, it } from 'vitest';
import { parseIp } from '../../base/net/ip.ts';
import type { KernelEvent } from '../../netlink/events.ts';
import type { IfIndex } from '../../netlink/interface-name.ts';
import type { Link } from '../../netlink/links.ts';
import type { Address } from '../../netlink/routing/addresses.ts';
import type { Neighbour } from '../../netlink/routing/neighbours.ts';
import { ourProtocol, type Route } from '../../netlink/routing/routes.ts';
import type { Rule } from '../../netlink/routing/rules.ts';
import { concernsNode, concernsRoutes, concernsSettings, concernsUs } from './host-watch.ts';

const gateway = 7 as IfIndex;
const other = 8 as IfIndex;
const peer = parseIp('10.244.4.1');
const pod = parseIp('10.244.0.5');

const neighbour = (change: 'set' | 'deleted', link: IfIndex, address: typeof peer, state: Neighbour['state']): KernelEvent => ({
  kind: 'neighbour',
  change,
  neighbour: { link, address, mac: undefined, state, protocol: 0 },
});
const route = (protocol: number): KernelEvent => ({ kind: 'route', change: 'deleted', route: { protocol } as Route });
const rule = (protocol: number): KernelEvent => ({ kind: 'rule', change: 'deleted', rule: { protocol } as Rule });

it.each([
  ['a peer’s neighbour is removed', neighbour('deleted', gateway, peer, 'failed'), true],
  ['a peer’s neighbour becomes dynamic', neighbour('set', gateway, peer, 'stale'), true],
  ['another program adds a permanent neighbour', neighbour('set', gateway, pod, 'permanent'), true],
  ['the kernel learns of a pod', neighbour('set', gateway, pod, 'reachable'), false],
  ['a neighbour elsewhere', neighbour('deleted', other, peer, 'permanent'), false],
  ['a route of ours goes', route(ourProtocol), true],
  ['a route of another program goes', route(4), false],
  ['a rule of ours goes', rule(ourProtocol), true],
  ['a rule of another program goes', rule(0), false],
  ['news were lost', { kind: 'overrun' } as const, true],
])('%s: %#', (_, event, concerns) => {
  expect(concernsUs(event, gateway, (ip) => ip.text === peer.text)).toBe(concerns);
});

const link = (index: IfIndex, name: string) => ({ kind: 'link', change: 'set', link: { index, name } as Link }) as const;
const address = (index: IfIndex, scope: Address['scope']) =>
  ({ kind: 'address', change: 'deleted', address: { link: index, scope } as Address }) as const;

it.each([
  ['an interface of the node changes', link(other, 'eth0'), true],
  ['our own gateway changes', link(gateway, 'antrea-gw0'), false],
  ['a pod’s interface comes', link(other, 'web1-0a1b2c3'), false],
  ['the node loses an address', address(other, 'global'), true],
  ['the gateway loses an address', address(gateway, 'global'), false],
  ['a pod’s interface gets a link-local address', address(other, 'link'), false],
  ['news were lost', { kind: 'overrun' } as const, true],
])('%s: concerns the node %#', (_, event, concerns) =>
  expect(concernsNode(event, gateway, (name) => name.startsWith('web1-'))).toBe(concerns),
);

const ofKind = (change: 'set' | 'deleted', kind: string | undefined) =>
  ({ kind: 'link', change, link: { index: other, kind } as Link }) as const;

it.each([
  ['who reads a tap has come or gone', ofKind('set', 'tun'), true],
  ['a tap is gone, and its settings with it', ofKind('deleted', 'tun'), false],
  ['a pod’s interface comes', ofKind('set', 'veth'), false],
  ['the gateway loses an address', address(gateway, 'global'), true],
  ['another interface loses one', address(other, 'global'), false],
  ['news were lost', { kind: 'overrun' } as const, true],
])('%s: concerns settings %#', (_, event, concerns) => expect(concernsSettings(event, gateway)).toBe(concerns));

it.each([
  ['the interface of a route goes down', link(other, 'eth0'), true],
  ['an interface without routes changes', link(other, 'eth1'), false],
  ['a pod’s interface changes', link(other, 'pod0'), false],
  ['a route of Seine’s changes', route(ourProtocol), false],
])('reports that routes may be gone if %s: %#', (_, event, concerns) => {
  const isPod = (name: string) => name === 'pod0';
  expect(concernsRoutes(event, isPod, (name) => name === 'eth0' || name === 'pod0')).toBe(concerns);
});
