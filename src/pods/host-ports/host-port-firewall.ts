import type { Family, Ip } from '../../base/net/ip.ts';
import { type HostPort, placeOf } from '../../dataplane/compile/host-port.ts';
import { elementKey, type FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';
import { nftText } from '../../netlink/nftables/nft-elements.ts';

/** Table of nftables that translates host ports to pods. */
export const hostPortsTable = 'seine-host-ports';

const sets = {
  ipv4: { everywhere: 'everywhere4', addressed: 'addressed4', self: 'self4', kept: 'kept4' },
  ipv6: { everywhere: 'everywhere6', addressed: 'addressed6', self: 'self6', kept: 'kept6' },
} as const satisfies Readonly<Record<Family, object>>;
const words = { ipv4: { ip: 'ip', type: 'ipv4_addr' }, ipv6: { ip: 'ip6', type: 'ipv6_addr' } } as const;

/**
 * Priority after that of node ports of Services, Seine's and those of kube-proxy (-100): a packet is translated by the first chain with a
 * rule for it.
 */
const PRIORITY = -95;
/** Priority before masquerading by other rules: packets to the own host port get the gateway's address here, and no other one there. */
const SELF_PRIORITY = 90;

interface HostPortFirewallOptions {
  readonly families: readonly Family[];
  readonly gateway: string;
}

/**
 * Returns the table that translates packets to a host port of the node to the pod and its port. The host ports are elements, each owned by
 * its pod, so the rules never change.
 *
 * A packet is translated only if the node has its destination address at that moment, even if a host port names an address: the pod's
 * author chooses that address, and it could belong to another host. At an address in `kept`, a process of the node has the port.
 *
 * The client address is preserved, and policy sees it with the container's port. If a pod connects to its own host port, its reply would
 * bypass the reverse translation, so the packet gets the gateway's address. Packets from the node's loopback get it from the node's own
 * table; for this the gateway routes loopback addresses, so packets to them must not arrive through it.
 */
export function hostPortFirewall({ families, gateway }: HostPortFirewallOptions): string {
  const translate = families.flatMap((family) => {
    const { ip } = words[family];
    const { everywhere, addressed, kept } = sets[family];
    return [
      `${ip} daddr . meta l4proto . th dport @${kept} return`,
      `meta nfproto ${family} fib daddr type local dnat ${ip} addr . port to ${ip} daddr . meta l4proto . th dport map @${addressed}`,
      `meta nfproto ${family} fib daddr type local dnat ${ip} addr . port to meta l4proto . th dport map @${everywhere}`,
    ];
  });
  const self = families.map((family) => {
    const { ip } = words[family];
    return `oifname "${gateway}" ${ip} saddr . ${ip} daddr @${sets[family].self} masquerade`;
  });
  const chain = (name: string, hook: string, rules: readonly string[]): string =>
    `chain ${name} {\n${[`type ${hook}; policy accept;`, ...rules].join('\n')}\n}`;
  const loopback = families.includes('ipv4') ? [`iifname "${gateway}" ip daddr 127.0.0.0/8 drop`] : [];
  return [
    ...families.flatMap(declarations),
    chain('prerouting-raw', 'filter hook prerouting priority raw', loopback),
    chain('prerouting', `nat hook prerouting priority ${PRIORITY}`, translate),
    chain('output', `nat hook output priority ${PRIORITY}`, translate),
    chain('postrouting', `nat hook postrouting priority ${SELF_PRIORITY}`, self),
  ].join('\n');
}

function declarations(family: Family): readonly string[] {
  const { type } = words[family];
  const { everywhere, addressed, self, kept } = sets[family];
  return [
    `map ${everywhere} { type inet_proto . inet_service : ${type} . inet_service; }`,
    `map ${addressed} { type ${type} . inet_proto . inet_service : ${type} . inet_service; }`,
    `set ${kept} { type ${type} . inet_proto . inet_service; }`,
    `set ${self} { type ${type} . ${type}; }`,
  ];
}

/** Reports whether an element belongs to a pod's host port. */
export function isHostPort(key: FirewallKey): boolean {
  return key.startsWith(`element/${hostPortsTable}/`);
}

/** Host port, and the addresses at which a process of the node has the port. */
interface ServedHostPort extends HostPort {
  readonly kept?: readonly Ip[];
}

/** Returns the elements of one pod: each host port maps to the pod's address of each family of the host port. Pure. */
export function hostPortElements(addresses: readonly Ip[], hostPorts: readonly ServedHostPort[]): ReadonlyMap<FirewallKey, string> {
  return new Map(
    addresses.flatMap((ip) => {
      const led = hostPorts.flatMap((each) => elementsOf(each, ip));
      return led.length === 0 ? [] : [...led, [elementKey(hostPortsTable, sets[ip.family].self, nftText(ip, ip)), ''] as const];
    }),
  );
}

function elementsOf(each: ServedHostPort, ip: Ip): readonly (readonly [FirewallKey, string])[] {
  const { transport, hostPort, containerPort } = each;
  const place = placeOf(each, ip.family);
  if (place === undefined) return [];
  const { everywhere, addressed } = sets[ip.family];
  const key =
    place === 'everywhere'
      ? elementKey(hostPortsTable, everywhere, nftText(transport, hostPort))
      : elementKey(hostPortsTable, addressed, nftText(place, transport, hostPort));
  const kept = (each.kept ?? []).filter(({ family }) => family === ip.family);
  return [
    [key, nftText(ip, containerPort)],
    ...kept.map((address) => [elementKey(hostPortsTable, sets[ip.family].kept, nftText(address, transport, hostPort)), ''] as const),
  ];
}
