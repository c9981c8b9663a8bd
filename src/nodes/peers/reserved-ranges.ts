import { cidrOf, hostCidr, type Ip, isIp, parseIp } from '../../base/net/ip.ts';
import { specialRanges } from '../../base/net/special-ranges.ts';
import { type NodeEnvironment, ownCidrs } from '../../dataplane/compile/environment.ts';
import { virtualRanges } from '../../dataplane/pipeline/well-known.ts';
import type { ReservedRange } from './address-claims.ts';

/** Address of this node, with the network on its link. */
interface OwnAddress {
  readonly address: Ip;
  readonly prefixLength: number;
}

/**
 * Returns the ranges that no other node can have, as seen by this node.
 *
 * @param addresses all global ones of the node
 * @param apiServer host of the API server, address or name; a name reserves nothing
 */
export function reservedRanges(
  environment: NodeEnvironment,
  addresses: readonly OwnAddress[],
  apiServer: string,
): readonly ReservedRange[] {
  const { serviceCidrs, transport } = environment;
  const underlay = addresses.filter(({ address }) => transport.some(({ text }) => text === address.text));
  const host = apiServer.replace(/^\[|\]$/g, '');
  return [
    ...specialRanges.map((range): ReservedRange => ({ range, what: 'addresses of a host itself or of a link', against: 'both' })),
    ...virtualRanges.map((range): ReservedRange => ({ range, what: 'virtual addresses of Seine', against: 'both' })),
    ...ownCidrs(environment).map((range): ReservedRange => ({ range, what: 'pods of this node', against: 'both' })),
    ...serviceCidrs.map((range): ReservedRange => ({ range, what: 'addresses of Services', against: 'both' })),
    ...addresses.map(({ address }): ReservedRange => ({ range: hostCidr(address), what: 'an address of this node', against: 'both' })),
    ...underlay.map(
      ({ address, prefixLength }): ReservedRange => ({
        range: cidrOf(address, prefixLength),
        what: 'the network that carries the tunnels',
        against: 'pods',
      }),
    ),
    ...(isIp(host) ? [{ range: hostCidr(parseIp(host)), what: 'the API server', against: 'pods' } as const] : []),
  ];
}
