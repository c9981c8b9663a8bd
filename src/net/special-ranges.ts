import { type Cidr, containedIn, parseCidr } from './ip.ts';

/**
 * Special-purpose addresses of the machine itself or of a link, which no pod or node of a cluster can have. Source: IANA special-purpose
 * address registries (RFC 6890). IPv4: this network, loopback, link-local, multicast, reserved and broadcast. IPv6: the unspecified,
 * loopback, mapped and translated addresses (all of `::/8`), link-local, multicast.
 */
export const specialRanges: readonly Cidr[] = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '240.0.0.0/4'],
  ...['::/8', 'fe80::/10', 'ff00::/8'],
].map(parseCidr);

export const isSpecial = containedIn(specialRanges);
