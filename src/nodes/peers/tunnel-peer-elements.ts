import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import { firewallTable, plainNetworkSets, podNetworkSets, tunnelPeerSets } from '../../dataplane/compile/compile-firewall.ts';
import { elementKey, type FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';

/**
 * Returns elements of the node's nftables table: addresses of one other node to which processes of this node must not send tunnel packets.
 * All of its addresses, of both families: it receives tunnel packets at each. Two nodes may have one address.
 */
export function tunnelPeerElements(addresses: readonly Ip[]): ReadonlyMap<FirewallKey, string> {
  return new Map(addresses.map(({ family, text }) => [elementKey(firewallTable, tunnelPeerSets[family], text), '']));
}

/**
 * Returns elements of the node's nftables table: networks of the pods of one other node, whose addresses no packet from outside the tunnel
 * may have unless that node announces such packets. A network inside another one is omitted, because intervals of a set cannot overlap.
 */
export function podNetworkElements(networks: readonly Cidr[], maySendDirectly: boolean): ReadonlyMap<FirewallKey, string> {
  const isInside = (inner: Cidr, outer: Cidr): boolean =>
    inner.family === outer.family && inner.prefixLength > outer.prefixLength && cidrContains(outer, inner.network);
  const outermost = networks.filter((network) => !networks.some((other) => isInside(network, other)));
  const sets = maySendDirectly ? [podNetworkSets, plainNetworkSets] : [podNetworkSets];
  return new Map(outermost.flatMap(({ family, text }) => sets.map((of) => [elementKey(firewallTable, of[family], text), ''] as const)));
}
