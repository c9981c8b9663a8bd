import { expect, it } from 'vitest';
import { parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { nothing } from '../../src/dataplane/desired/host-entries.ts';
import { hostEntries } from '../../src/dataplane/targets/host/host-entry.ts';
import { HostTarget } from '../../src/dataplane/targets/host/host-target.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { RouteConflicts } from '../../src/nodes/local/route-conflicts.ts';
import { inside, withNamespaces } from './netlink-fixture.ts';

const routes = [
  { destination: parseCidr('10.10.4.0/22'), via: parseIp('169.254.0.253'), dev: 'gw0' },
  { destination: parseCidr('10.10.8.0/22'), via: parseIp('192.168.77.3'), dev: 'link0', exclusive: true },
  { destination: parseCidr('fd00:10:0:2::/64'), via: parseIp('fd00:77::3'), dev: 'link0', exclusive: true },
] as const;

it('finds routes of other programs that take packets of the gateway’s routes, and of those to peers without a tunnel', () =>
  withNamespaces(1, async (lab) => {
    const ip = (text: string) => inside(lab, 'ip', ...text.split(' '));
    for (const name of ['gw0', 'link0', 'other0']) {
      ip(`link add ${name} type veth peer name far-${name}`);
      ip(`link set ${name} up`);
      ip(`link set far-${name} up`);
    }
    ip('address add 192.168.77.1/24 dev link0');
    const target = new HostTarget('gw0', lab.namespace);
    const socket = NetlinkSocket.open({ namespace: lab.namespace });
    try {
      const signal = AbortSignal.timeout(20_000);
      const held = hostEntries({ ...nothing, routes });
      await target.apply({ put: held, remove: new Set() });
      const conflicts = new RouteConflicts({ socket, held: () => held });
      expect(await conflicts.find(signal)).toEqual([]);
      for (const network of ['10.10.4.0/24', '10.10.8.0/24']) ip(`route add ${network} dev other0`);
      ip('-6 route add fd00:10:0:2::/80 dev other0');
      const found = await conflicts.find(signal);
      expect(found.map(({ network, dev }) => `${network.text} ${dev}`)).toEqual(
        routes.map(({ destination, dev }) => `${destination.text} ${dev}`),
      );
      ip('link del other0');
      expect(await conflicts.find(signal)).toEqual([]);
    } finally {
      socket.close();
      await target.close();
    }
  }));
