import { internetChecksum } from '../../base/net/internet-checksum.ts';
import type { Family } from '../../base/net/ip.ts';

/**
 * IP packets in Ethernet frames, and replies to them.
 *
 * Layouts: Ethernet II (14 bytes), IPv4 (RFC 791 section 3.1), IPv6 (RFC 8200 section 3), ICMP (RFC 792), ICMPv6 (RFC 4443 section 2.1).
 */

export const ETHERNET_BYTES = 14;
export const IPV6_BYTES = 40;
const IPV4_BYTES = 20;
const ICMP_BYTES = 8;
const HOPS = 64;
export const ipProtocol = { icmp: 1, tcp: 6, udp: 17, icmp6: 58, sctp: 132 } as const;

/**
 * Maximum number of quoted bytes. RFC 4443 section 3.1: as much of the packet as fits into the minimum MTU. RFC 1812 section 4.3.2.3: the
 * message is at most 576 bytes for IPv4.
 */
const mostQuoted = { ipv4: 576 - IPV4_BYTES - ICMP_BYTES, ipv6: 1280 - IPV6_BYTES - ICMP_BYTES } as const;

/** Addresses of a reply. */
export interface IpAddresses {
  readonly family: Family;
  readonly source: Uint8Array;
  readonly destination: Uint8Array;
}

/** Returns an IP packet, without options. */
export function ipPacket({ family, source, destination }: IpAddresses, protocol: number, payload: Uint8Array): Buffer {
  if (family === 'ipv6') {
    const header = Buffer.alloc(8);
    header.writeUInt8(0x60, 0);
    header.writeUInt16BE(payload.length, 4);
    header.writeUInt8(protocol, 6);
    header.writeUInt8(HOPS, 7);
    return Buffer.concat([header, source, destination, payload]);
  }
  const header = Buffer.alloc(12);
  header.writeUInt8(0x45, 0);
  header.writeUInt16BE(IPV4_BYTES + payload.length, 2);
  header.writeUInt16BE(0x4000, 6);
  header.writeUInt8(HOPS, 8);
  header.writeUInt8(protocol, 9);
  const whole = Buffer.concat([header, source, destination]);
  whole.writeUInt16BE(internetChecksum(whole), 10);
  return Buffer.concat([whole, payload]);
}

/** Returns an IP packet with an ICMP error that quotes the beginning of a packet. */
export function icmpError(ends: IpAddresses, { type, code }: { readonly type: number; readonly code: number }, quoted: Uint8Array): Buffer {
  const message = Buffer.concat([Buffer.alloc(ICMP_BYTES), quoted.subarray(0, mostQuoted[ends.family])]);
  message.writeUInt8(type, 0);
  message.writeUInt8(code, 1);
  const protocol = ends.family === 'ipv4' ? ipProtocol.icmp : ipProtocol.icmp6;
  const covered = ends.family === 'ipv4' ? [message] : [pseudoHeader(ends, protocol, message.length), message];
  message.writeUInt16BE(internetChecksum(...covered), 2);
  return ipPacket(ends, protocol, message);
}

/** Returns the pseudo-header (RFC 9293 section 3.1 and RFC 8200 section 8.1). */
export function pseudoHeader({ family, source, destination }: IpAddresses, protocol: number, length: number): Buffer {
  const tail = Buffer.alloc(family === 'ipv4' ? 4 : 8);
  tail.writeUInt8(protocol, tail.length - (family === 'ipv4' ? 3 : 1));
  tail.writeUInt16BE(length, 2);
  return Buffer.concat([source, destination, tail]);
}
