import type { Family } from '../../../base/net/ip.ts';
import { clearCounters, clearTable, firewallTable, guardCounters } from '../../../dataplane/compile/compile-firewall.ts';
import { readCounters } from '../../../netlink/nftables/nft-counters.ts';
import type { NetlinkSocket } from '../../../netlink/socket.ts';

export interface GuardDropsPort {
  /** Socket of protocol `netfilter`. */
  readonly netfilter: NetlinkSocket;
}

/** Returns the packets with pods' addresses that arrived without a tunnel and were dropped; none while Seine's table does not exist. */
export function readGuardDrops({ netfilter }: GuardDropsPort): ReadonlyMap<Family, number> {
  return packetsOf(netfilter, firewallTable, guardCounters);
}

/** Returns the packets that would have left or arrived without encryption and were dropped; none without encryption. */
export function readClearDrops({ netfilter }: GuardDropsPort): ReadonlyMap<Family, number> {
  return packetsOf(netfilter, clearTable, clearCounters);
}

function packetsOf(netfilter: NetlinkSocket, table: string, names: Readonly<Record<Family, string>>): ReadonlyMap<Family, number> {
  const counters = readCounters(netfilter, table);
  const found = new Map<Family, number>();
  for (const family of ['ipv4', 'ipv6'] as const) {
    const packets = counters.get(names[family]);
    if (packets !== undefined) found.set(family, packets);
  }
  return found;
}
