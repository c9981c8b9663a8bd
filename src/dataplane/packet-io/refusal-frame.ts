import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type IpAddresses, icmpError, ipPacket, ipProtocol, pseudoHeader } from './ip-frame.ts';
import { isOneHost, type QuotablePacket, readQuotable } from './quotable-packet.ts';

/**
 * Answer to a packet that policy denies, as a firewall gives it: a TCP reset, else the ICMP error "administratively prohibited". Pure:
 * frames in, frames out. A packet may be cut short behind its headers.
 *
 * Sources: RFC 9293 sections 3.1 and 3.5.2; RFC 1812 section 5.2.7.1 (code 13); RFC 4443 section 3.1 (code 1); RFC 9260 section 3.3.2.
 */

const TCP_BYTES = 20;
const flag = { fin: 1, syn: 2, rst: 4, ack: 16 } as const;
const prohibited = { ipv4: { type: 3, code: 13 }, ipv6: { type: 1, code: 1 } } as const;
/** Type of an echo request by protocol. Source: RFC 792, RFC 4443 section 4.1. */
const echoRequests = { ipv4: 8, ipv6: 128 } as const;
/** Offset of the first chunk of an SCTP packet, and the type of the chunk that opens an association. Source: RFC 9260 section 3. */
const sctp = { chunkAt: 12, init: 1 } as const;
const UDP_BYTES = 8;
const ECHO_BYTES = 8;
const portedProtocols: ReadonlySet<number> = new Set([ipProtocol.tcp, ipProtocol.udp, ipProtocol.sctp]);

/** Destination of a connection as its client asked for it. */
export interface AskedDestination {
  readonly ip: Ip;
  /** Absent: that of the packet. */
  readonly port?: number;
}

/**
 * @param asked absent: the destination of the packet
 * @returns undefined unless the packet opens a connection between two hosts: a TCP SYN, a UDP datagram, an SCTP INIT, an ICMP echo request
 */
export function refusal(frame: Uint8Array, asked?: AskedDestination): Uint8Array | undefined {
  const packet = readQuotable(frame);
  if (!packet || !isOpening(packet)) return undefined;
  const { family, source } = packet;
  const destination = asked ? Buffer.from(ipToBytes(asked.ip)) : packet.destination;
  if (destination.length !== source.length || !isOneHost(family, source) || !isOneHost(family, destination)) return undefined;
  const ends = { family, source: destination, destination: source };
  const denied = asked ? withDestination(packet, destination, asked.port) : packet;
  const answer = packet.protocol === ipProtocol.tcp ? reset(ends, denied) : icmpError(ends, prohibited[family], denied.bytes);
  const all = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  return Buffer.concat([all.subarray(6, 12), all.subarray(0, 6), packet.etherType, answer]);
}

function isOpening({ family, protocol, payload, hasMore }: QuotablePacket): boolean {
  switch (protocol) {
    case ipProtocol.tcp:
      return !hasMore && payload.length >= TCP_BYTES && (payload.readUInt8(13) & (flag.syn | flag.ack | flag.rst | flag.fin)) === flag.syn;
    case ipProtocol.udp:
      return payload.length >= UDP_BYTES;
    case ipProtocol.sctp:
      return payload.length > sctp.chunkAt && payload.readUInt8(sctp.chunkAt) === sctp.init;
    case family === 'ipv4' ? ipProtocol.icmp : ipProtocol.icmp6:
      return payload.length >= ECHO_BYTES && payload.readUInt16BE(0) === echoRequests[family] << 8;
    default:
      return false;
  }
}

/** Returns the reset of a closed port: it acknowledges the SYN and the data that came with it. */
function reset(ends: IpAddresses, { payload, payloadBytes }: QuotablePacket): Buffer {
  const dataBytes = Math.max(0, payloadBytes - (payload.readUInt8(12) >>> 4) * 4);
  const segment = Buffer.alloc(TCP_BYTES);
  segment.writeUInt16BE(payload.readUInt16BE(2), 0);
  segment.writeUInt16BE(payload.readUInt16BE(0), 2);
  segment.writeUInt32BE((payload.readUInt32BE(4) + 1 + dataBytes) % 2 ** 32, 8);
  segment.writeUInt8((TCP_BYTES / 4) << 4, 12);
  segment.writeUInt8(flag.rst | flag.ack, 13);
  segment.writeUInt16BE(internetChecksum(pseudoHeader(ends, ipProtocol.tcp, segment.length), segment), 16);
  return ipPacket(ends, ipProtocol.tcp, segment);
}

/**
 * Returns the packet as its client sent it, before translation: the client finds its connection by the addresses and ports that the error
 * quotes. Checksums of its protocol are left, because no receiver verifies those of a quotation that is cut short.
 */
function withDestination(packet: QuotablePacket, destination: Uint8Array, port: number | undefined): QuotablePacket {
  const bytes = Buffer.from(packet.bytes);
  const at = bytes.length - packet.payload.length;
  bytes.set(destination, packet.family === 'ipv4' ? 16 : 24);
  if (port !== undefined && portedProtocols.has(packet.protocol)) bytes.writeUInt16BE(port, at + 2);
  if (packet.family === 'ipv4') {
    bytes.writeUInt16BE(0, 10);
    bytes.writeUInt16BE(internetChecksum(bytes.subarray(0, at)), 10);
  }
  return { ...packet, bytes, payload: bytes.subarray(at) };
}
