import { type Cidr, cidrContains, type Ip } from '../../base/net/ip.ts';
import {
  clearTable,
  encryptedNetworkSets,
  firewallTable,
  plainNetworkSets,
  podNetworkSets,
  tunnelPeerSets,
} from '../../dataplane/compile/compile-firewall.ts';
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
  const sets = maySendDirectly ? [podNetworkSets, plainNetworkSets] : [podNetworkSets];
  return new Map(
    outermost(networks).flatMap(({ family, text }) => sets.map((of) => [elementKey(firewallTable, of[family], text), ''] as const)),
  );
}

/** Returns elements of the table against cleartext: networks of the pods of one other node, to which no packet leaves without encryption. */
export function encryptedNetworkElements(networks: readonly Cidr[]): ReadonlyMap<FirewallKey, string> {
  return new Map(outermost(networks).map(({ family, text }) => [elementKey(clearTable, encryptedNetworkSets[family], text), '']));
}

function outermost(networks: readonly Cidr[]): readonly Cidr[] {
  const isInside = (inner: Cidr, outer: Cidr): boolean =>
    inner.family === outer.family && inner.prefixLength > outer.prefixLength && cidrContains(outer, inner.network);
  return networks.filter((network) => !networks.some((other) => isInside(network, other)));
}
