import type { Ip } from '../../base/net/ip.ts';
import { firewallTable, tunnelPeerSets } from '../../dataplane/compile/compile-firewall.ts';
import { elementKey, type FirewallKey } from '../../dataplane/targets/host/firewall-target.ts';

/**
 * Returns elements of the node's nftables table: addresses of one other node to which processes of this node must not send tunnel packets.
 * All of its addresses, of both families: it receives tunnel packets at each. Two nodes may have one address.
 */
export function tunnelPeerElements(addresses: readonly Ip[]): ReadonlyMap<FirewallKey, string> {
  return new Map(addresses.map(({ family, text }) => [elementKey(firewallTable, tunnelPeerSets[family], text), '']));
}
