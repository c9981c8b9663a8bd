import { type Cidr, containedIn, parseCidr } from './ip.ts';

/**
 * Special-purpose addresses of the node itself or of a link, which no pod or node of a cluster can have. Source: IANA special-purpose
 * address registries (RFC 6890). IPv4: this network, loopback, link-local, multicast and limited broadcast. IPv6: the unspecified, loopback
 * and IPv4-compatible addresses (RFC 4291, 2.5), mapped (RFC 4291, 2.5.5.2) and translated ones (RFC 2765), link-local, multicast.
 *
 * The list excludes ranges that the kernel and Open vSwitch forward like any other unicast address and that the Kubernetes API admits:
 * class E (240.0.0.0/4 without 255.255.255.255), and the prefixes of NAT64 (64:ff9b::/96, RFC 6052; 64:ff9b:1::/48, RFC 8215).
 */
export const specialRanges: readonly Cidr[] = [
  ...['0.0.0.0/8', '127.0.0.0/8', '169.254.0.0/16', '224.0.0.0/4', '255.255.255.255/32'],
  ...['::/96', '::ffff:0:0/96', '::ffff:0:0:0/96', 'fe80::/10', 'ff00::/8'],
].map(parseCidr);

export const isSpecial = containedIn(specialRanges);
