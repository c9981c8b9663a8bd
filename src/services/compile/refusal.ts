import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { type Ip, ipFromValue } from '../../base/net/ip.ts';
import {
  ETHERNET_BYTES,
  IPV6_BYTES,
  type IpAddresses,
  icmpError,
  ipPacket,
  ipProtocol,
  pseudoHeader,
} from '../../dataplane/packet-io/ip-frame.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';

/**
 * Reply to a packet for a Service without endpoints, as the Service's address itself would give it: a TCP reset, or a port unreachable.
 * Pure: frames in, frames out.
 *
 * Layouts: Ethernet II (14 bytes), IPv4 (RFC 791 section 3.1), IPv6 (RFC 8200 section 3), TCP (RFC 9293 section 3.1), ICMP (RFC 792
 * "Destination Unreachable"), ICMPv6 (RFC 4443 section 3.1).
 */

const TCP_BYTES = 20;
const flag = { fin: 1, syn: 2, rst: 4, ack: 16 } as const;

interface IpPacket {
  readonly family: 'ipv4' | 'ipv6';
  /** Whole IP packet, without padding of the frame. */
  readonly bytes: Buffer;
  readonly source: Buffer;
  readonly destination: Buffer;
  readonly protocol: number;
  readonly payload: Buffer;
}

/** @returns the frame to send back, or `undefined` if no reply is allowed: resets, fragments, truncated packets */
export function refuse(frame: Uint8Array): Uint8Array | undefined {
  const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  const packet = readPacket(bytes);
  const answer =
    packet &&
    (packet.protocol === ipProtocol.tcp
      ? tcpReset(packet)
      : packet.protocol === ipProtocol.udp || packet.protocol === ipProtocol.sctp
        ? portUnreachable(packet)
        : undefined);
  if (!answer) return undefined;
  const header = Buffer.concat([bytes.subarray(6, 12), bytes.subarray(0, 6), bytes.subarray(12, 14)]);
  return Buffer.concat([header, answer]);
}

/** Destination of a packet. */
export interface Destination {
  readonly ip: Ip;
  readonly transport: Transport;
  readonly port: number;
}

const transports: ReadonlyMap<number, Transport> = new Map([
  [ipProtocol.tcp, 'tcp'],
  [ipProtocol.udp, 'udp'],
  [ipProtocol.sctp, 'sctp'],
]);

/** @returns undefined for a fragment, for a truncated packet, and for protocols without ports */
export function destinationOf(frame: Uint8Array): Destination | undefined {
  const packet = readPacket(Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength));
  const transport = packet && transports.get(packet.protocol);
  if (packet === undefined || transport === undefined || packet.payload.length < 4) return undefined;
  const ip = ipFromValue(packet.family, BigInt(`0x${packet.destination.toString('hex')}`));
  return { ip, transport, port: packet.payload.readUInt16BE(2) };
}

function readPacket(frame: Buffer): IpPacket | undefined {
  if (frame.length < ETHERNET_BYTES + 20) return undefined;
  const etherType = frame.readUInt16BE(12);
  const ip = frame.subarray(ETHERNET_BYTES);
  if (etherType === 0x0800) return readIpv4(ip);
  return etherType === 0x86dd ? readIpv6(ip) : undefined;
}

function readIpv4(ip: Buffer): IpPacket | undefined {
  const headerBytes = (ip.readUInt8(0) & 0xf) * 4;
  const length = ip.readUInt16BE(2);
  const fragment = ip.readUInt16BE(6) & 0x3fff;
  if (headerBytes < 20 || length < headerBytes || length > ip.length || fragment !== 0) return undefined;
  const bytes = ip.subarray(0, length);
  return {
    family: 'ipv4',
    bytes,
    source: ip.subarray(12, 16),
    destination: ip.subarray(16, 20),
    protocol: ip.readUInt8(9),
    payload: bytes.subarray(headerBytes),
  };
}

/** Reads a packet without extension headers: flows of Services match the transport protocol, and packets that hide it get no reply. */
function readIpv6(ip: Buffer): IpPacket | undefined {
  if (ip.length < IPV6_BYTES) return undefined;
  const length = IPV6_BYTES + ip.readUInt16BE(4);
  if (length > ip.length) return undefined;
  const bytes = ip.subarray(0, length);
  return {
    family: 'ipv6',
    bytes,
    source: ip.subarray(8, 24),
    destination: ip.subarray(24, 40),
    protocol: ip.readUInt8(6),
    payload: bytes.subarray(IPV6_BYTES),
  };
}

/** Returns the reset that a closed port sends (RFC 9293 section 3.5.2, group 1). */
function tcpReset(packet: IpPacket): Buffer | undefined {
  const { payload: segment } = packet;
  if (segment.length < TCP_BYTES) return undefined;
  const flags = segment.readUInt8(13);
  if (flags & flag.rst) return undefined;
  const headerBytes = (segment.readUInt8(12) >>> 4) * 4;
  // No kernel replies to an invalid segment.
  if (headerBytes < TCP_BYTES || headerBytes > segment.length) return undefined;
  const dataBytes = segment.length - headerBytes;
  const reset = Buffer.alloc(TCP_BYTES);
  reset.writeUInt16BE(segment.readUInt16BE(2), 0);
  reset.writeUInt16BE(segment.readUInt16BE(0), 2);
  if (flags & flag.ack) {
    reset.writeUInt32BE(segment.readUInt32BE(8), 4);
    reset.writeUInt8(flag.rst, 13);
  } else {
    const taken = dataBytes + (flags & flag.syn ? 1 : 0) + (flags & flag.fin ? 1 : 0);
    reset.writeUInt32BE((segment.readUInt32BE(4) + taken) % 2 ** 32, 8);
    reset.writeUInt8(flag.rst | flag.ack, 13);
  }
  reset.writeUInt8((TCP_BYTES / 4) << 4, 12);
  const ends = turned(packet);
  reset.writeUInt16BE(internetChecksum(pseudoHeader(ends, ipProtocol.tcp, reset.length), reset), 16);
  return ipPacket(ends, ipProtocol.tcp, reset);
}

function portUnreachable(packet: IpPacket): Buffer {
  const kind = packet.family === 'ipv4' ? { type: 3, code: 3 } : { type: 1, code: 4 };
  return icmpError(turned(packet), kind, packet.bytes);
}

/** Ends of a reply, from the packet's destination to its source. */
function turned({ family, source, destination }: IpPacket): IpAddresses {
  return { family, source: destination, destination: source };
}
