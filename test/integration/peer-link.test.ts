import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import { getLink } from '../../src/netlink/links.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { linkTo } from '../../src/nodes/modes/peer-link.ts';
import { RecentLinks } from '../../src/nodes/modes/recent-links.ts';
import { inside, withNamespaces } from './netlink-fixture.ts';

const setUp = [
  'link set lo up',
  'link add link0 type veth peer name far0',
  'link set far0 up',
  'link set link0 up',
  'address add 192.168.77.1/24 dev link0',
  'address add fd00:77::1/64 dev link0 nodad',
  'route add 192.168.78.0/24 via 192.168.77.254',
  '-6 route add fd00:78::/64 via fd00:77::fe',
  'route add 198.51.100.7/32 dev link0',
  'route add blackhole 192.0.2.0/24',
  'route add prohibit 192.0.3.0/24',
  '-6 route add unreachable 2001:db8::/32',
];

it('finds the interface to peers on the link, and none to those behind a router or without a route', () =>
  withNamespaces(1, (lab) => {
    for (const line of setUp) inside(lab, 'ip', ...line.split(' '));
    const socket = NetlinkSocket.open({ namespace: lab.namespace });
    try {
      const links = new RecentLinks({ read: (index) => getLink(socket, index), now: () => 0 });
      const found = (...texts: readonly string[]) => texts.map((text) => linkTo(socket, links, parseIp(text)) ?? 'none');
      expect(found('192.168.77.2', 'fd00:77::2', '198.51.100.7')).toEqual(['link0', 'link0', 'link0']);
      expect(found('192.168.78.2', 'fd00:78::2')).toEqual(['none', 'none']);
      expect(found('203.0.113.9', '192.0.2.9', '192.0.3.9', '2001:db8::9')).toEqual(['none', 'none', 'none', 'none']);
      expect(found('192.168.77.1', 'fd00:77::1')).toEqual(['none', 'none']); // its own
    } finally {
      socket.close();
    }
  }));
