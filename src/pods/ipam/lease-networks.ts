import { type Cidr, cidrOf } from '../../base/net/ip.ts';
import type { Lease } from './lease.ts';

/**
 * Returns the networks of all pods of the node, and of addresses that may still be in use. Networks of another IPAM plugin are not routed
 * here.
 */
export function leasedNetworks(leases: readonly Lease[]): readonly Cidr[] {
  const cidrs = new Map<string, Cidr>();
  for (const { addresses, ipamType } of leases) {
    if (ipamType !== undefined) continue;
    for (const { ip, prefixLength } of addresses) {
      const cidr = cidrOf(ip, prefixLength);
      cidrs.set(cidr.text, cidr);
    }
  }
  return [...cidrs.values()];
}
