import type { Family, Ip } from '../net/ip.ts';
import { nftText } from '../netlink/nft-elements.ts';
import { externalRouting } from '../pipeline/well-known.ts';
import type { ServiceIntent } from '../proxy/service-intent.ts';
import { elementKey, type FirewallKey } from '../reconcile/firewall-target.ts';
import type { WantedRule } from '../wanted/wanted.ts';

/**
 * Table of nftables that marks packets for external addresses of Services. It is not part of `seine-services`: an agent up to 0.22.0 that
 * replaces this one leaves it alone until its own routes are in place.
 */
export const externalTable = 'seine-external';

const sets = {
  ipv4: { addresses: 'external-addresses4', ports: 'external-ports4' },
  ipv6: { addresses: 'external-addresses6', ports: 'external-ports6' },
} as const satisfies Readonly<Record<Family, object>>;
const words = {
  ipv4: { ip: 'ip', type: 'ipv4_addr', icmp: 'icmp' },
  ipv6: { ip: 'ip6', type: 'ipv6_addr', icmp: 'ipv6-icmp' },
} as const;

/** Before reverse path filters of other programs at `raw` (-300), which ask for the route of the packet's mark. */
const BEFORE_REVERSE_PATH_FILTERS = -310;
/** After `mangle` (-150), where other programs restore marks, and before every translation of destinations (`PRIORITY` in service-firewall.ts). */
const AFTER_OTHER_MARKS = -145;

const mark = `0x${externalRouting.mark.toString(16)}`;
const marking = `meta mark set meta mark | ${mark}`;

interface ExternalFirewallOptions {
  readonly families: readonly Family[];
  readonly gateway: string;
}

/**
 * The body of the table. It marks what is for a port that a Service has at an external address, so that the rules of the routing policy lead it
 * to the bridge ({@link externalRules}); other ports of the address are routed as if there were no Service.
 *
 * ICMP errors about a connection to such a port are marked as well: the endpoint needs them. An answer from the bridge is marked for the sake
 * of reverse path filters; the table of routes does not have its destination.
 *
 * A packet for another port that would leave the node by the interface that it came in by is dropped. A router that sends all packets for
 * the address to this node would send it back, until its hop limit ends.
 */
export function externalFirewall({ families, gateway }: ExternalFirewallOptions): string {
  const chain = (name: string, hook: string, rules: readonly string[]): string =>
    `chain ${name} {\n${[`type ${hook}; policy accept;`, ...rules].join('\n')}\n}`;
  const requests = families.flatMap((family) => {
    const { ip, icmp } = words[family];
    const { ports } = sets[family];
    return [
      `${ip} daddr . meta l4proto . th dport @${ports} ${marking} accept`,
      `meta l4proto ${icmp} ct state related ct original ${ip} daddr . ct original protocol . ct original proto-dst @${ports} ${marking} accept`,
    ];
  });
  const answers = families.map(
    (family) => `iifname "${gateway}" ${words[family].ip} saddr . meta l4proto . th sport @${sets[family].ports} ${marking}`,
  );
  const turns = families.map((family) => `${words[family].ip} daddr @${sets[family].addresses} fib daddr . iif oif exists drop`);
  return [
    ...families.flatMap((family) => [
      `set ${sets[family].addresses} { type ${words[family].type}; }`,
      `set ${sets[family].ports} { type ${words[family].type} . inet_proto . inet_service; }`,
    ]),
    chain('answers', `filter hook prerouting priority ${BEFORE_REVERSE_PATH_FILTERS}`, answers),
    chain('prerouting', `filter hook prerouting priority ${AFTER_OTHER_MARKS}`, [...requests, ...turns]),
    chain('output', `route hook output priority ${AFTER_OTHER_MARKS}`, requests),
  ].join('\n');
}

/** Rules of the routing policy that lead to the table of external addresses. */
export function externalRules(families: readonly Family[]): readonly WantedRule[] {
  const { mark: bits, table, rules } = externalRouting;
  return families.flatMap((family) => [
    { family, table, priority: rules.marked, mark: bits },
    { family, table, priority: rules.otherwise },
  ]);
}

/**
 * Elements for the external addresses of one port of a Service.
 *
 * @param isRouted tells whether the node's own stack leads packets for an address to the bridge
 */
export function externalElements(
  { family, transport, addresses }: Pick<ServiceIntent, 'family' | 'transport' | 'addresses'>,
  isRouted: (ip: Ip) => boolean,
): ReadonlyMap<FirewallKey, string> {
  const elements = new Map<FirewallKey, string>();
  for (const { kind, ip, port } of addresses) {
    if ((kind !== 'external' && kind !== 'loadBalancer') || !isRouted(ip)) continue;
    elements.set(elementKey(externalTable, sets[family].addresses, nftText(ip)), '');
    elements.set(elementKey(externalTable, sets[family].ports, nftText(ip, transport, port)), '');
  }
  return elements;
}
