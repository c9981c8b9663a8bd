import { type Family, type Ip, parseIp } from '../../base/net/ip.ts';
import type { WantedRule } from '../../dataplane/desired/host-entries.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { externalRouting, nodePortAddress, serviceNextHop } from '../../dataplane/pipeline/well-known.ts';
import { elementKey, type FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';
import { nftText } from '../../netlink/nftables/nft-elements.ts';
import type { ServiceEndpoint, ServiceIntent } from '../compile/service-intent.ts';
import { translationOf } from '../compile/virtual-ports.ts';

/** Name of the nftables table that sends node ports to the bridge. */
export const servicesTable = 'seine-services';

const sets = {
  ipv4: { addresses: 'node-addresses4', ports: 'node-ports4', own: 'own-external4' },
  ipv6: { addresses: 'node-addresses6', ports: 'node-ports6', own: 'own-external6' },
} as const satisfies Readonly<Record<Family, object>>;
const words = {
  // Protocol numbers: nft reads names from /etc/protocols, which an image need not have.
  ipv4: { ip: 'ip', type: 'ipv4_addr', icmp: 1 },
  ipv6: { ip: 'ip6', type: 'ipv6_addr', icmp: 58 },
} as const;

/** Priority before kube-proxy's and every other chain at `dstnat` (-100): the first chain with a matching rule translates a packet. */
const PRIORITY = -105;

interface ServiceFirewallOptions {
  readonly families: readonly Family[];
  readonly gateway: string;
}

/**
 * Table that translates the destination of packets for a node port, or for an external address that is the node's own, to the virtual
 * address of node ports on the bridge. Ports and addresses are elements, so that a change of one Service costs one element.
 *
 * The source does not change, except for the node's own packets (in the node's own table). A pod that connects to its node gets replies by
 * the same path: the bridge returns replies to packets from the gateway there.
 *
 * The bridge gives packets from the gateway whose endpoint is a process of the node the source `serviceNextHop`. They are not translated
 * again: the endpoint may have the address and port of the Service.
 *
 * A packet of a translated connection that connection tracking considers invalid would leave with the virtual address: it is dropped.
 */
export function serviceFirewall({ families, gateway }: ServiceFirewallOptions): string {
  const translate = families.flatMap((family) => {
    const { ip } = words[family];
    const { addresses, ports, own } = sets[family];
    return [
      `dnat ${ip} addr . port to ${ip} daddr . meta l4proto . th dport map @${own}`,
      `${ip} daddr @${addresses} meta l4proto . th dport @${ports} dnat ${ip} to ${nodePortAddress[family].text}`,
    ];
  });
  const returned = families.map((family) => `${words[family].ip} saddr ${serviceNextHop[family].text} return`);
  const virtual = families.map((family) => `${words[family].ip} daddr ${nodePortAddress[family].text}`);
  const invalid = families.map((family) => `${words[family].ip} saddr ${nodePortAddress[family].text} ct state invalid drop`);
  // A client that addresses the virtual address itself: only translated packets may have it.
  const guard = virtual.map((match) => `iifname != "${gateway}" ${match} ct status ! dnat drop`);
  return [
    ...families.flatMap((family) => declarations(family)),
    chain('prerouting', `nat hook prerouting priority ${PRIORITY}`, [...returned, ...translate]),
    chain('output', `nat hook output priority ${PRIORITY}`, translate),
    chain('forward', 'filter hook forward priority -5', [...guard, ...invalid]),
  ].join('\n');
}

function declarations(family: Family): readonly string[] {
  const { type } = words[family];
  const { addresses, ports, own } = sets[family];
  return [
    `set ${addresses} { type ${type}; }`,
    `set ${ports} { type inet_proto . inet_service; }`,
    `map ${own} { type ${type} . inet_proto . inet_service : ${type} . inet_service; }`,
  ];
}

/** Returns elements with the addresses on which node ports are served. */
export function addressElements(addresses: readonly Ip[], families: readonly Family[]): ReadonlyMap<FirewallKey, string> {
  return new Map(
    addresses.flatMap((ip) =>
      families.includes(ip.family) ? [[elementKey(servicesTable, sets[ip.family].addresses, nftText(ip)), ''] as const] : [],
    ),
  );
}

/**
 * Returns the elements of one port of a Service: its node port, and its external addresses that are the node's own, which no route can send
 * to the bridge (`translationOf`).
 *
 * @param own reports whether an address is the node's
 * @param addresses those of the port's addresses whose elements are returned
 */
export function portElements(
  intent: ServiceIntent,
  own: (ip: Ip) => boolean,
  addresses = intent.addresses,
): ReadonlyMap<FirewallKey, string> {
  const { family, transport } = intent;
  const nodePort = addresses.find(({ kind }) => kind === 'nodePort');
  const elements = new Map<FirewallKey, string>();
  if (nodePort) elements.set(elementKey(servicesTable, sets[family].ports, nftText(transport, nodePort.port)), '');
  for (const address of addresses) {
    const { kind, ip, port } = address;
    const instead = (kind === 'external' || kind === 'loadBalancer') && own(ip) ? translationOf(intent, address) : undefined;
    if (instead !== undefined)
      elements.set(elementKey(servicesTable, sets[family].own, nftText(ip, transport, port)), nftText(instead.ip, instead.port));
  }
  return elements;
}

/**
 * Returns the destination to which the table translates a packet; undefined: the packet keeps its own.
 *
 * @param element returns the value of an element, empty for one of a set; undefined if there is no such element
 */
export function translationAt(
  element: (key: FirewallKey) => string | undefined,
  transport: Transport,
  { ip, port }: ServiceEndpoint,
): ServiceEndpoint | undefined {
  const { addresses, ports, own } = sets[ip.family];
  const instead = element(elementKey(servicesTable, own, nftText(ip, transport, port)));
  if (instead !== undefined) {
    const [address = '', number = ''] = instead.split(' . ');
    return { ip: parseIp(address), port: Number(number) };
  }
  const isOpen =
    element(elementKey(servicesTable, addresses, nftText(ip))) !== undefined &&
    element(elementKey(servicesTable, ports, nftText(transport, port))) !== undefined;
  return isOpen ? { ip: nodePortAddress[ip.family], port } : undefined;
}

function chain(name: string, hook: string, rules: readonly string[]): string {
  return `chain ${name} {\n${[`type ${hook}; policy accept;`, ...rules].join('\n')}\n}`;
}

/**
 * Name of the nftables table that marks packets for external addresses of Services. It is not part of `seine-services`, which an agent up
 * to 0.22.0 replaces when it starts, before its own routes are in place. That agent does not know this table.
 */
export const externalTable = 'seine-external';

const externalSets = {
  ipv4: { addresses: 'external-addresses4', ports: 'external-ports4' },
  ipv6: { addresses: 'external-addresses6', ports: 'external-ports6' },
} as const satisfies Readonly<Record<Family, object>>;

/** Priority before reverse path filters of other programs at `raw` (-300), which use the packet's mark in the route lookup. */
const BEFORE_REVERSE_PATH_FILTERS = -310;
/** Priority after `mangle` (-150), where other programs restore marks, and before every translation of destinations (`PRIORITY`). */
const AFTER_OTHER_MARKS = -145;

const mark = `0x${externalRouting.mark.toString(16)}`;
const marking = `meta mark set meta mark | ${mark}`;

/**
 * Body of the table. It marks packets for a port that a Service has at an external address, so that the rules of the routing policy send
 * them to the bridge ({@link externalRules}); other ports of the address are routed as if there were no Service.
 *
 * ICMP errors about a connection to such a port are marked as well: the endpoint needs them. A reply from the bridge is marked for reverse
 * path filters; the table of routes does not have its destination.
 *
 * A packet for another port that would leave the node by the interface by which it came is dropped. A router that sends all packets for the
 * address to this node would return it, until its hop limit is reached.
 */
export function externalFirewall({ families, gateway }: ServiceFirewallOptions): string {
  const requests = families.flatMap((family) => {
    const { ip, icmp } = words[family];
    const { ports } = externalSets[family];
    return [
      `${ip} daddr . meta l4proto . th dport @${ports} ${marking} accept`,
      `meta l4proto ${icmp} ct state related ct original ${ip} daddr . ct original protocol . ct original proto-dst @${ports} ${marking} accept`,
    ];
  });
  const answers = families.map(
    (family) => `iifname "${gateway}" ${words[family].ip} saddr . meta l4proto . th sport @${externalSets[family].ports} ${marking}`,
  );
  const turns = families.map((family) => `${words[family].ip} daddr @${externalSets[family].addresses} fib daddr . iif oif exists drop`);
  return [
    ...families.flatMap((family) => [
      `set ${externalSets[family].addresses} { type ${words[family].type}; }`,
      `set ${externalSets[family].ports} { type ${words[family].type} . inet_proto . inet_service; }`,
    ]),
    chain('answers', `filter hook prerouting priority ${BEFORE_REVERSE_PATH_FILTERS}`, answers),
    chain('prerouting', `filter hook prerouting priority ${AFTER_OTHER_MARKS}`, [...requests, ...turns]),
    chain('output', `route hook output priority ${AFTER_OTHER_MARKS}`, requests),
  ].join('\n');
}

/** Rules of the routing policy that select the table of external addresses. */
export function externalRules(families: readonly Family[]): readonly WantedRule[] {
  const { mark: bits, table, rules } = externalRouting;
  return families.flatMap((family) => [
    { family, table, priority: rules.marked, mark: bits },
    { family, table, priority: rules.otherwise },
  ]);
}

/**
 * Returns elements for the external addresses of one port of a Service.
 *
 * @param isRouted reports whether the node's own stack routes packets for an address to the bridge
 */
export function externalElements(
  { family, transport, addresses }: Pick<ServiceIntent, 'family' | 'transport' | 'addresses'>,
  isRouted: (ip: Ip) => boolean,
): ReadonlyMap<FirewallKey, string> {
  const elements = new Map<FirewallKey, string>();
  for (const { kind, ip, port } of addresses) {
    if ((kind !== 'external' && kind !== 'loadBalancer') || !isRouted(ip)) continue;
    elements.set(elementKey(externalTable, externalSets[family].addresses, nftText(ip)), '');
    elements.set(elementKey(externalTable, externalSets[family].ports, nftText(ip, transport, port)), '');
  }
  return elements;
}
