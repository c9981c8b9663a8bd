import { internetChecksum } from '../../base/net/internet-checksum.ts';
import { type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';
import { echoRequest } from './echo-frame.ts';
import { ipPacket, ipProtocol, pseudoHeader } from './ip-frame.ts';

/** Packet that opens a connection. */
export interface ProbePacket {
  readonly source: Mac;
  readonly nextHop: Mac;
  readonly from: Ip;
  readonly to: Ip;
  readonly protocol: 'tcp' | 'udp' | 'sctp' | 'icmp';
  /** Source port, or the identifier of the echo. */
  readonly sourcePort: number;
  /** Ignored for ICMP. */
  readonly port: number;
  /** Size of the IP packet, filled with zeros; absent: the headers alone. Not for SCTP. */
  readonly bytes?: number;
}

const etherTypes = { ipv4: 0x0800, ipv6: 0x86dd } as const;
const TCP_BYTES = 20;
const SYN = 0x02;
const WINDOW = 64_240;
const UDP_BYTES = 8;
const SCTP_BYTES = 12;

/**
 * Returns a frame with a whole packet and correct checksums, which connection tracking accepts: a TCP SYN (RFC 9293 section 3.1), an empty
 * UDP datagram (RFC 768), an SCTP INIT (RFC 9260 section 3.3.2) or an echo request.
 */
export function probeFrame(packet: ProbePacket): Uint8Array {
  const { source, nextHop, from, to, protocol, sourcePort } = packet;
  const { family } = from;
  const fill = new Uint8Array(fillBytes(packet));
  if (protocol === 'icmp') return echoRequest({ from, to, source, nextHop }, sourcePort, fill);
  const ends = { family, source: ipToBytes(from), destination: ipToBytes(to) };
  const segment = Buffer.concat([{ tcp: syn, udp: datagram, sctp: sctpInit }[protocol](packet), fill]);
  if (protocol === 'udp') segment.writeUInt16BE(segment.length, 4);
  if (protocol !== 'sctp') {
    const sum = internetChecksum(pseudoHeader(ends, ipProtocol[protocol], segment.length), segment);
    // Zero means "no checksum" in UDP.
    segment.writeUInt16BE(protocol === 'udp' && sum === 0 ? 0xffff : sum, protocol === 'tcp' ? 16 : 6);
  }
  const etherType = Buffer.alloc(2);
  etherType.writeUInt16BE(etherTypes[family]);
  return Buffer.concat([macToBytes(nextHop), macToBytes(source), etherType, ipPacket(ends, ipProtocol[protocol], segment)]);
}

const headerBytes = { ipv4: 20, ipv6: 40 } as const;
const transportBytes = { tcp: TCP_BYTES, udp: UDP_BYTES, icmp: 8 } as const;

function fillBytes({ bytes, from, protocol }: ProbePacket): number {
  if (bytes === undefined || protocol === 'sctp') return 0;
  return Math.max(0, bytes - headerBytes[from.family] - transportBytes[protocol]);
}

function ports({ sourcePort, port }: ProbePacket, bytes: number): Buffer {
  const segment = Buffer.alloc(bytes);
  segment.writeUInt16BE(sourcePort, 0);
  segment.writeUInt16BE(port, 2);
  return segment;
}

function syn(packet: ProbePacket): Buffer {
  const segment = ports(packet, TCP_BYTES);
  segment.writeUInt32BE(1, 4);
  segment.writeUInt8((TCP_BYTES / 4) << 4, 12);
  segment.writeUInt8(SYN, 13);
  segment.writeUInt16BE(WINDOW, 14);
  return segment;
}

function datagram(packet: ProbePacket): Buffer {
  return ports(packet, UDP_BYTES);
}

/** Chunk INIT: tag 1, window 64 KiB, one stream each way, sequence number 1. */
function sctpInit(packet: ProbePacket): Buffer {
  const chunk = Buffer.from('0100001400000001000100000001000100000001', 'hex');
  const segment = Buffer.concat([ports(packet, SCTP_BYTES), chunk]);
  segment.writeUInt32LE(crc32c(segment), 8);
  return segment;
}

/** Reversed polynomial of CRC32c. Source: RFC 9260 appendix A. */
const CRC32C = 0x82f6_3b78;

function crc32c(bytes: Uint8Array): number {
  let crc = 0xffff_ffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ CRC32C : crc >>> 1;
  }
  return (crc ^ 0xffff_ffff) >>> 0;
}
