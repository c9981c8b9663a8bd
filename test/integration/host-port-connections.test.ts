import { expect, it } from 'vitest';
import { parseIp } from '../../src/base/net/ip.ts';
import type { HostPort } from '../../src/dataplane/compile/host-port.ts';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { HostPortConnections } from '../../src/pods/host-ports/host-port-connections.ts';
import { withNamespaces } from './netlink-fixture.ts';

const addresses = [parseIp('10.10.0.5'), parseIp('fd00:10::5')];
const hostPorts = Array.from({ length: 3_000 }, (_, index): HostPort => {
  const transport = (['tcp', 'udp', 'sctp'] as const)[index % 3] ?? 'tcp';
  return { transport, hostPort: 40_000 + index, containerPort: 80 };
});

/** Walks through the table, each as `PROTOCOL FAMILY`, with a port if the kernel filters by it; of a node whose addresses no other test changes. */
async function withWalks(act: (connections: HostPortConnections, walks: readonly string[]) => Promise<void>): Promise<void> {
  await withNamespaces(1, async ({ namespace }) => {
    const walks: string[] = [];
    const routes = NetlinkSocket.open({ namespace });
    const connections = new HostPortConnections(routes, async (_, { family, ipProtocol, dstPort }) => {
      walks.push(`${ipProtocol} ${family}${dstPort === undefined ? '' : ` port ${dstPort}`}`);
      return await Promise.resolve([]);
    });
    try {
      await act(connections, walks);
    } finally {
      await connections.close();
      routes.close();
    }
  });
}

it('the table is read once for each protocol and family, however many host ports a pod has', () =>
  withWalks(async (connections, walks) => {
    await connections.forget({ addresses, hostPorts }, 'came');
    expect(walks.toSorted()).toEqual(['132 ipv4', '132 ipv6', '17 ipv4', '17 ipv6']);
  }));

it('the kernel filters by a single port', () =>
  withWalks(async (connections, walks) => {
    const [, udp] = hostPorts;
    await connections.forget({ addresses, hostPorts: udp ? [udp] : [] }, 'went');
    expect(walks.toSorted()).toEqual(['17 ipv4 port 40001', '17 ipv6 port 40001']);
  }));

it('connections that are no longer translated are looked for at the first comparison, and after a port was lost', () =>
  withWalks(async (connections, walks) => {
    const pods = Array.from({ length: 20 }, () => ({ addresses, hostPorts, lost: new Set<HostPort>() }));
    await connections.forgetUntranslated(pods);
    expect(walks).toHaveLength(6);
    await connections.forgetUntranslated(pods);
    expect(walks).toHaveLength(6);
    const [pod, ...others] = pods;
    const [tcp] = hostPorts;
    if (!pod || !tcp) throw new Error('no pod');
    const changed = [{ ...pod, lost: new Set([tcp]) }, ...others];
    await connections.forgetUntranslated(changed);
    await connections.forgetUntranslated(changed);
    expect(walks.slice(6).toSorted()).toEqual(['6 ipv4 port 40000', '6 ipv6 port 40000']);
  }));
