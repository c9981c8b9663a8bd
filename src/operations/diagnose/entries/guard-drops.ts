import type { Family } from '../../../base/net/ip.ts';
import { firewallTable, guardCounters } from '../../../dataplane/compile/compile-firewall.ts';
import { readCounters } from '../../../netlink/nftables/nft-counters.ts';
import type { Nftables } from '../../../netlink/nftables/nftables.ts';

export interface GuardDropsPort {
  readonly nftables: Pick<Nftables, 'run'>;
}

/** Returns the packets with pods' addresses that arrived without a tunnel and were dropped; none while Seine's table does not exist. */
export function readGuardDrops({ nftables }: GuardDropsPort): ReadonlyMap<Family, number> {
  const counters = readCounters(nftables, firewallTable);
  const found = new Map<Family, number>();
  for (const family of ['ipv4', 'ipv6'] as const) {
    const packets = counters.get(guardCounters[family]);
    if (packets !== undefined) found.set(family, packets);
  }
  return found;
}
