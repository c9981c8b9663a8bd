import { parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { ClusterNetworkPolicyObject } from '../reference/objects.ts';
import { addressesOf } from '../reference/parties.ts';
import { NetworkIndex } from './network-index.ts';
import type { ProbedEnd } from './peer-groups.ts';

/**
 * Networks of cluster rules that a node reports as left out. A node cannot distinguish their addresses from others: it may deny them
 * whatever the policies say, and allows them only if the policies do.
 */
export class LeftOutClusterNetworks {
  readonly #networks = new NetworkIndex<string>();

  /** @param rules `name spec.egress[2]` of cluster policies; names of other rules are skipped */
  constructor(policies: readonly ClusterNetworkPolicyObject[], rules: ReadonlySet<string>) {
    if (rules.size === 0) return;
    for (const { metadata, spec } of policies)
      for (const [at, { to = [] }] of (spec.egress ?? []).entries()) {
        const name = `${metadata.name} spec.egress[${at}]`;
        if (rules.has(name)) for (const cidr of to.flatMap(({ networks = [] }) => networks)) this.#networks.add(parseCidr(cidr), name);
      }
  }

  has({ ip, party }: ProbedEnd): boolean {
    return addressesOf({ address: ip.text, peer: party }).some((address) => [...this.#networks.holding(parseIp(address))].length > 0);
  }
}
