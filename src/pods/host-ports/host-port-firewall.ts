import type { Family, Ip } from '../../base/net/ip.ts';
import { type HostPort, placeOf } from '../../dataplane/compile/host-port.ts';
import { elementKey, type FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';
import { nftText } from '../../netlink/nftables/nft-elements.ts';

/** Table of the node's packet filter that leads host ports to pods. */
export const hostPortsTable = 'seine-host-ports';

const sets = {
  ipv4: { everywhere: 'everywhere4', addressed: 'addressed4', self: 'self4', kept: 'kept4' },
  ipv6: { everywhere: 'everywhere6', addressed: 'addressed6', self: 'self6', kept: 'kept6' },
} as const satisfies Readonly<Record<Family, object>>;
const words = { ipv4: { ip: 'ip', type: 'ipv4_addr' }, ipv6: { ip: 'ip6', type: 'ipv6_addr' } } as const;

/** Behind node ports of Services, ours and kube-proxy's (-100): a packet is translated by the first chain that has a rule for it. */
const PRIORITY = -95;
/** Before what masquerades by other rules: it gets the gateway's address here, and no other there. */
const SELF_PRIORITY = 90;

interface HostPortFirewallOptions {
  readonly families: readonly Family[];
  readonly gateway: string;
}

/**
 * The table that translates what comes for a host port of the node to the pod and its port. Which is a matter of elements, each wanted by
 * its pod, so that the rules never change.
 *
 * Translation is for an address that the node has when the packet comes, also where a host port names one: a pod's author writes that address, and
 * any other is somebody else's. At an address in `kept`, a process of the node has the port.
 *
 * The client keeps its address, and policy sees it and the container's port. A pod that asks for its own host port would be answered by
 * itself past the translation back: it gets the gateway's address. What the node sends from its loopback gets that by the node's own
 * table; for that the gateway routes loopback addresses, so none may come in by it.
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

/** Whether it is an element that pods want, and nobody else. */
export function isHostPort(key: FirewallKey): boolean {
  return key.startsWith(`element/${hostPortsTable}/`);
}

/** A host port, and the addresses that it leaves to processes of the node. */
interface ServedHostPort extends HostPort {
  readonly kept?: readonly Ip[];
}

/** The elements of one pod: a host port leads to its address of each family that the host port is in. Pure. */
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
