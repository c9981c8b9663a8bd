import { listConnections, type TrackedConnection } from '../../netlink/conntrack.ts';
import { linkStatistics, listLinks } from '../../netlink/links.ts';
import { Nftables, objectsIn } from '../../netlink/nftables/nftables.ts';
import { listAddresses } from '../../netlink/routing/addresses.ts';
import { listNeighbours } from '../../netlink/routing/neighbours.ts';
import { listRoutes } from '../../netlink/routing/routes.ts';
import { listRules } from '../../netlink/routing/rules.ts';
import { NetlinkSocket } from '../../netlink/socket.ts';
import { readSysctl, type SysctlName } from '../../netlink/sysctl.ts';
import type { BundlePart } from './collect.ts';
import { plainJson, plainLine } from './plain-json.ts';

const families = ['ipv4', 'ipv6'] as const;
/** Protocols whose ports are tracked: TCP, UDP, SCTP (IANA protocol numbers). */
const tracked = { tcp: 6, udp: 17, sctp: 132 } as const;
/** Maximum number of entries that are counted by zone. */
const COUNTED_MAX = 300_000;

/** Kernel state that matters to a node's network: read with netlink and from /proc, in the caller's network namespace. */
export function kernelParts(): readonly BundlePart[] {
  return [
    { name: 'kernel/links.ndjson', gather: () => withSocket('route', links) },
    { name: 'kernel/addresses.ndjson', gather: () => withSocket('route', (socket) => lines(listAddresses(socket))) },
    {
      name: 'kernel/routes.ndjson',
      gather: () => withSocket('route', (socket) => lines(families.flatMap((family) => listRoutes(socket, { family })))),
    },
    {
      name: 'kernel/rules.ndjson',
      gather: () =>
        withSocket('route', (socket) =>
          lines(families.flatMap((family) => listRules(socket, family).map(({ described: _, ...rule }) => rule))),
        ),
    },
    {
      name: 'kernel/neighbours.ndjson',
      gather: () => withSocket('route', (socket) => lines(families.flatMap((family) => listNeighbours(socket, { family })))),
    },
    { name: 'kernel/nftables.json', gather: ruleset },
    { name: 'kernel/conntrack.json', gather: () => withSocket('netfilter', connections) },
    { name: 'kernel/settings.json', gather: settings },
  ];
}

function withSocket(protocol: 'route' | 'netfilter', read: (socket: NetlinkSocket) => string): string {
  const socket = NetlinkSocket.open({ protocol });
  try {
    return read(socket);
  } finally {
    socket.close();
  }
}

function links(socket: NetlinkSocket): string {
  return lines(listLinks(socket).map((link) => ({ ...link, statistics: linkStatistics(socket, link.index) })));
}

function ruleset(): string {
  const nftables = Nftables.open();
  try {
    return plainJson(objectsIn(nftables.run('list ruleset')));
  } finally {
    nftables.close();
  }
}

/** Number of connections that the kernel tracks, by zone; never the connections themselves. */
function connections(socket: NetlinkSocket): string {
  const numbers = {
    count: settingOr(['net', 'netfilter', 'nf_conntrack_count']),
    max: settingOr(['net', 'netfilter', 'nf_conntrack_max']),
  };
  if (Number(numbers.count ?? 0) > COUNTED_MAX) return plainJson({ ...numbers, byZone: `not counted: there are more than ${COUNTED_MAX}` });
  const byZone: Record<string, number> = {};
  for (const family of families)
    for (const [name, ipProtocol] of Object.entries(tracked))
      for (const { zone } of listConnections(socket, { family, ipProtocol }) satisfies TrackedConnection[]) {
        const key = `zone ${zone} ${family} ${name}`;
        byZone[key] = (byZone[key] ?? 0) + 1;
      }
  return plainJson({ ...numbers, byZone });
}

const settingNames: readonly SysctlName[] = [
  ['net', 'ipv4', 'ip_forward'],
  ['net', 'ipv6', 'conf', 'all', 'forwarding'],
  ['net', 'ipv4', 'conf', 'all', 'rp_filter'],
  ['net', 'ipv4', 'conf', 'default', 'rp_filter'],
  ['net', 'bridge', 'bridge-nf-call-iptables'],
  ['net', 'netfilter', 'nf_conntrack_tcp_be_liberal'],
  ['net', 'ipv4', 'neigh', 'default', 'gc_thresh3'],
  ['net', 'ipv6', 'neigh', 'default', 'gc_thresh3'],
  ['net', 'ipv4', 'ip_local_port_range'],
  ['net', 'core', 'rmem_max'],
  ['fs', 'file-nr'],
  ['fs', 'inotify', 'max_user_instances'],
  ['kernel', 'osrelease'],
];

function settings(): string {
  return plainJson(Object.fromEntries(settingNames.map((name) => [name.join('.'), settingOr(name) ?? null])));
}

/** Undefined if the kernel has no such setting. */
function settingOr(name: SysctlName): string | undefined {
  try {
    return readSysctl(name);
  } catch {
    return undefined;
  }
}

function lines(values: readonly unknown[]): string {
  return values.map((value) => `${plainLine(value)}\n`).join('');
}
