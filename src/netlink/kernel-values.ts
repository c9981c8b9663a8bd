import { SeineError } from '../base/errors/seine-error.ts';
import { addressBits, type Cidr, cidrOf, type Family, type Ip, ipFromBytes, ipFromValue } from '../base/net/ip.ts';
import { type Mac, macFromBytes } from '../base/net/mac.ts';
import { type IfIndex, ifIndex } from './interface-name.ts';

/** `AF_INET` and `AF_INET6`. */
export const familyNumber = { ipv4: 2, ipv6: 10 } as const satisfies Record<Family, number>;

/** Undefined for any other address family: bridges, MPLS and the like are sent to the same groups and lists. */
export function familyOf(number: number): Family | undefined {
  return number === familyNumber.ipv4 ? 'ipv4' : number === familyNumber.ipv6 ? 'ipv6' : undefined;
}

/*
 * Values inside messages of the kernel. An invalid one is `PROTOCOL`, not a bug.
 */

export function ipIn(bytes: Uint8Array, family: Family, what: string): Ip {
  if (bytes.length * 8 !== addressBits(family)) throw new SeineError('PROTOCOL', `${what}: an ${family} address of ${bytes.length} bytes`);
  return ipFromBytes(bytes);
}

/** @param bytes undefined for the network of all addresses */
export function networkIn(bytes: Uint8Array | undefined, prefixLength: number, family: Family, what: string): Cidr {
  if (prefixLength > addressBits(family)) throw new SeineError('PROTOCOL', `${what}: an ${family} prefix of ${prefixLength} bits`);
  return cidrOf(bytes ? ipIn(bytes, family, what) : ipFromValue(family, 0n), prefixLength);
}

export function linkIn(index: number, what: string): IfIndex {
  if (index <= 0 || index > 0x7fff_ffff) throw new SeineError('PROTOCOL', `${what}: interface index ${index}`);
  return ifIndex(index);
}

/** 0 and absence both mean none. */
export function optionalLinkIn(index: number | undefined, what: string): IfIndex | undefined {
  return index ? linkIn(index, what) : undefined;
}

/** Undefined for hardware addresses that are not Ethernet addresses (InfiniBand, tunnels). */
export function macIn(bytes: Uint8Array | undefined): Mac | undefined {
  return bytes?.length === 6 ? macFromBytes(bytes) : undefined;
}
