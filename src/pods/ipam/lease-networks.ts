import { type Cidr, cidrOf } from '../../base/net/ip.ts';
import type { Lease } from './lease.ts';

/** Networks of every pod that the node has, or whose addresses may still be in use. Another IPAM plugin's are not ours to route. */
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
