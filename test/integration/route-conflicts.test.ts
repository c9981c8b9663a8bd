import { expect, it } from 'vitest';
import { detourCheck } from '../../src/agent/routing-check.ts';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { hostEntries } from '../../src/dataplane/targets/host/host-entry.ts';
import { HostTarget } from '../../src/dataplane/targets/host/host-target.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { RouteConflicts } from '../../src/nodes/local/route-conflicts.ts';
import { findDetours } from '../../src/nodes/modes/route-detours.ts';
import { inside, withNamespaces } from './netlink-fixture.ts';

const routes = [
  { destination: parseCidr('10.10.4.0/22'), via: parseIp('169.254.0.253'), dev: 'gw0' },
  { destination: parseCidr('10.10.8.0/22'), via: parseIp('192.168.77.3'), dev: 'link0', exclusive: true },
  { destination: parseCidr('fd00:10:0:2::/64'), via: parseIp('fd00:77::3'), dev: 'link0', exclusive: true },
] as const;

/** Namespace with the interfaces of the routes, and another. */
async function withRoutes(work: (parts: RoutedNode) => Promise<void>): Promise<void> {
  await withNamespaces(1, async (lab) => {
    const ip = (text: string) => inside(lab, 'ip', ...text.split(' '));
    for (const name of ['gw0', 'link0', 'other0']) {
      ip(`link add ${name} type veth peer name far-${name}`);
      ip(`link set ${name} up`);
      ip(`link set far-${name} up`);
    }
    ip('address add 192.168.77.1/24 dev link0');
    const target = new HostTarget('gw0', { namespace: lab.namespace });
    const socket = NetlinkSocket.open({ namespace: lab.namespace });
    try {
      const held = hostEntries({ ...nothing, routes });
      await target.apply({ put: held, remove: new Set() });
      await work({ socket, open: () => NetlinkSocket.open({ namespace: lab.namespace }), held: () => held, ip });
    } finally {
      socket.close();
      await target.close();
    }
  });
}

interface RoutedNode {
  readonly socket: NetlinkSocket;
  readonly open: () => NetlinkSocket;
  readonly held: () => ReturnType<typeof hostEntries>;
  readonly ip: (text: string) => void;
}

it('finds routes of other programs that take packets of the gateway’s routes, and of those to peers without a tunnel', () =>
  withRoutes(async ({ socket, held, ip }) => {
    const signal = AbortSignal.timeout(20_000);
    const conflicts = new RouteConflicts({ socket, held });
    expect(await conflicts.find(signal)).toEqual([]);
    for (const network of ['10.10.4.0/24', '10.10.8.0/24']) ip(`route add ${network} dev other0`);
    ip('-6 route add fd00:10:0:2::/80 dev other0');
    const found = await conflicts.find(signal);
    expect(found.map(({ network, dev }) => `${network.text} ${dev}`)).toEqual(
      routes.map(({ destination, dev }) => `${destination.text} ${dev}`),
    );
    ip('link del other0');
    expect(await conflicts.find(signal)).toEqual([]);
  }));

it('names routes of other programs to any part of a network, with the program', () =>
  withRoutes(async ({ open, held, ip }) => {
    const check = detourCheck(() => findDetours({ open, held }));
    const problems = async () => (await check.run(AbortSignal.timeout(20_000))).problems;
    expect(await problems()).toEqual([]);
    ip('route add 10.10.9.77/32 via 192.168.77.9 dev link0 proto static'); // by the same interface
    ip('route add 10.10.6.77/32 via 192.168.77.9 dev link0 proto bird');
    ip('-6 route add fd00:10:0:2:5::/80 dev other0 proto static');
    ip('route add 10.10.0.0/16 dev other0');
    expect((await problems()).map(({ kind, about, message }) => [kind, about, message])).toEqual([
      ['route.detour', '10.10.6.77/32', expect.stringMatching(/protocol bird.*10\.10\.4\.0\/22.*by gw0/)],
      ['route.detour', 'fd00:10:0:2:5::/80', expect.stringMatching(/protocol static.*fd00:10:0:2::\/64.*by link0/)],
    ]);
  }));
