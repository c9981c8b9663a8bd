import type { Family } from '../../base/net/ip.ts';
import { ETHERNET_BYTES, IPV6_BYTES } from './ip-frame.ts';

/**
 * Reader of packets that an ICMP error may be about. Pure. A packet may be cut short behind its headers.
 *
 * Layouts: Ethernet II (14 bytes), IPv4 (RFC 791 section 3.1), IPv6 and its extension headers (RFC 8200 sections 3, 4).
 */

/** IPv6 extension headers, and the most of them that are read. Source: RFC 8200 section 4, RFC 4302 section 2. */
const extension = { hopByHop: 0, routing: 43, fragment: 44, authentication: 51, destination: 60 } as const;
const extensionsMax = 8;

/** Packet as far as it is known. */
export interface QuotablePacket {
  readonly family: Family;
  /** EtherType of the frame, as in its header. */
  readonly etherType: Buffer;
  /** The packet from its IP header on, without the padding of a short frame. */
  readonly bytes: Buffer;
  readonly source: Buffer;
  readonly destination: Buffer;
  readonly protocol: number;
  /** The packet from the header of its protocol on. */
  readonly payload: Buffer;
  /** Length of the payload as the packet states it. */
  readonly payloadBytes: number;
  /** True if more fragments follow. */
  readonly hasMore: boolean;
}

/** @returns undefined for other EtherTypes, packets cut short within their headers, and fragments other than the first */
export function readQuotable(frame: Uint8Array): QuotablePacket | undefined {
  const all = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  if (all.length < ETHERNET_BYTES) return undefined;
  const etherType = all.subarray(12, ETHERNET_BYTES);
  const packet = all.subarray(ETHERNET_BYTES);
  if (etherType.readUInt16BE(0) === 0x0800) return readIpv4(etherType, packet);
  return etherType.readUInt16BE(0) === 0x86dd ? readIpv6(etherType, packet) : undefined;
}

function readIpv4(etherType: Buffer, packet: Buffer): QuotablePacket | undefined {
  if (packet.length < 20 || packet.readUInt8(0) >>> 4 !== 4) return undefined;
  const headerBytes = (packet.readUInt8(0) & 0xf) * 4;
  const length = packet.readUInt16BE(2);
  const fragment = packet.readUInt16BE(6);
  if (headerBytes < 20 || length < headerBytes || packet.length < headerBytes || (fragment & 0x1fff) !== 0) return undefined;
  const bytes = packet.subarray(0, length);
  return {
    family: 'ipv4',
    etherType,
    bytes,
    source: bytes.subarray(12, 16),
    destination: bytes.subarray(16, 20),
    protocol: bytes.readUInt8(9),
    payload: bytes.subarray(headerBytes),
    payloadBytes: length - headerBytes,
    hasMore: (fragment & 0x2000) !== 0,
  };
}

function readIpv6(etherType: Buffer, packet: Buffer): QuotablePacket | undefined {
  if (packet.length < IPV6_BYTES || packet.readUInt8(0) >>> 4 !== 6) return undefined;
  const length = IPV6_BYTES + packet.readUInt16BE(4);
  const bytes = packet.subarray(0, length);
  const upper = readUpperLayer(bytes, packet.readUInt8(6));
  if (!upper) return undefined;
  const { protocol, at, hasMore } = upper;
  return {
    family: 'ipv6',
    etherType,
    bytes,
    source: bytes.subarray(8, 24),
    destination: bytes.subarray(24, 40),
    protocol,
    payload: bytes.subarray(at),
    payloadBytes: length - at,
    hasMore,
  };
}

interface UpperLayer extends Pick<QuotablePacket, 'protocol' | 'hasMore'> {
  /** Offset of its header. */
  readonly at: number;
}

/** @returns undefined behind too many extension headers, or if the packet is cut short within them */
function readUpperLayer(packet: Buffer, first: number): UpperLayer | undefined {
  let [protocol, at, hasMore] = [first, IPV6_BYTES, false];
  for (let headers = 0; headers <= extensionsMax; headers++) {
    const header = packet.subarray(at);
    const length = extensionBytes(protocol, header);
    if (length === 'upper layer') return { protocol, at, hasMore };
    if (length === undefined || at + length > packet.length) return undefined;
    if (protocol === extension.fragment) hasMore = (header.readUInt16BE(2) & 1) !== 0;
    [protocol, at] = [header.readUInt8(0), at + length];
  }
  return undefined;
}

/** @returns undefined for a header that is cut short, and for a fragment other than the first */
function extensionBytes(protocol: number, header: Buffer): number | 'upper layer' | undefined {
  const isWhole = header.length >= 8;
  switch (protocol) {
    case extension.hopByHop:
    case extension.routing:
    case extension.destination:
      return isWhole ? (header.readUInt8(1) + 1) * 8 : undefined;
    case extension.authentication:
      return isWhole ? (header.readUInt8(1) + 2) * 4 : undefined;
    case extension.fragment:
      return isWhole && header.readUInt16BE(2) >>> 3 === 0 ? 8 : undefined;
    default:
      return 'upper layer';
  }
}

/** Reports whether an address is that of one host: not unspecified, loopback, multicast, broadcast or reserved. */
export function isOneHost(family: Family, address: Buffer): boolean {
  const first = address.readUInt8(0);
  if (family === 'ipv4') return first !== 0 && first !== 127 && first < 224;
  const isLow = address.subarray(0, 15).every((byte) => byte === 0) && address.readUInt8(15) <= 1;
  return first !== 0xff && !isLow;
}
