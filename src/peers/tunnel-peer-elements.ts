import { firewallTable, tunnelPeerSets } from '../connectivity/compile-firewall.ts';
import type { Ip } from '../net/ip.ts';
import { elementKey, type FirewallKey } from '../reconcile/firewall-target.ts';

/** Elements of the node's packet filter by which it knows the ends of one peer's tunnels. Two peers may have one address. */
export function tunnelPeerElements(transport: readonly Ip[]): ReadonlyMap<FirewallKey, string> {
  return new Map(transport.map(({ family, text }) => [elementKey(firewallTable, tunnelPeerSets[family], text), '']));
}
