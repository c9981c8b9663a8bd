import { type Ip, ipFromBytes } from '../../base/net/ip.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import type { PacketIn } from '../../openflow/packet.ts';

/** Packet that a pod may not send or receive. */
export interface DeniedAttempt {
  readonly direction: 'ingress' | 'egress';
  /** Address of the pod, and of the other end. */
  readonly own: Ip;
  readonly peer: Ip;
  /** Protocol name: `TCP`, `UDP`, `SCTP`, `ICMP`, `ICMPv6`, else the protocol number. */
  readonly protocol: string;
  /** Ports; absent if the protocol has none, and in fragments other than the first. */
  readonly ports?: { readonly source: number; readonly destination: number };
  readonly icmp?: { readonly type: number; readonly code: number };
  /** Absent if the packet does not contain the header. */
  readonly tcp?: TcpNumbers;
  /** True if the packet was denied because it shows no port, and not by a rule. */
  readonly asFragments?: true;
}

/** Numbers of a TCP segment, RFC 9293 section 3.1. */
export interface TcpNumbers {
  readonly sequence: number;
  readonly acknowledgment: number;
  /** FIN is 1, SYN 2, RST 4, ACK 16. */
  readonly flags: number;
}

/** Denied packet, as far as it could be read. */
export interface DeniedPacket extends DeniedAttempt {
  /** OpenFlow port of the pod whose policies decided. */
  readonly ofPort: number;
}

const ETHERNET_BYTES = 14;
const IPV6_BYTES = 40;
/** Names of IP protocols by number. */
export const protocolNames: Readonly<Record<number, string>> = { 1: 'ICMP', 6: 'TCP', 17: 'UDP', 58: 'ICMPv6', 132: 'SCTP' };
const ported: ReadonlySet<number> = new Set([6, 17, 132]);
const icmps: ReadonlySet<number> = new Set([1, 58]);
/** Extension headers: hop-by-hop options, routing, destination options (RFC 8200 section 4.1). */
const extensions: ReadonlySet<number> = new Set([0, 43, 60]);
const FRAGMENT = 44;
const TCP = 6;
/** Bytes of a TCP header up to its flags. */
const TCP_NUMBERS_BYTES = 14;
/** Maximum number of extension headers. Real senders need fewer; headers after these are not read. */
const extensionsMax = 8;

/**
 * Reads a packet from one of the verdict tables; returns undefined if it cannot be read. Its bytes come from pods, so nothing beyond the
 * packet is read, and the number of headers followed is limited.
 *
 * Layouts: Ethernet II (14 bytes), IPv4 (RFC 791 section 3.1), IPv6 and its headers (RFC 8200 sections 3, 4).
 */
export function readDeniedPacket({ table, fields, data }: PacketIn): DeniedPacket | undefined {
  const isEgress = table === tables.egressVerdict.id;
  if (!isEgress && table !== tables.ingressVerdict.id) return undefined;
  return readPacketOf(isEgress ? 'egress' : 'ingress', { fields, data });
}

/** Reads a packet that policy denied in a direction, as `readDeniedPacket` does. */
export function readPacketOf(
  direction: DeniedPacket['direction'],
  { fields, data }: Pick<PacketIn, 'fields' | 'data'>,
): DeniedPacket | undefined {
  const isEgress = direction === 'egress';
  const ofPort = isEgress ? fields.in_port : fields.reg1;
  const bytes = Buffer.from(data.buffer, data.byteOffset, data.byteLength);
  const found = bytes.length < ETHERNET_BYTES ? undefined : readNetwork(bytes, bytes.readUInt16BE(12));
  if (typeof ofPort !== 'number' || !found) return undefined;
  const { source, destination, protocol, at } = found;
  return {
    direction,
    ofPort,
    own: isEgress ? source : destination,
    peer: isEgress ? destination : source,
    protocol: protocolNames[protocol] ?? String(protocol),
    ...(isFragment(fields.reg0) ? { asFragments: true } : {}),
    ...(at === undefined ? {} : readTransport(bytes, protocol, at)),
  };
}

function isFragment(reg0: PacketIn['fields']['reg0']): boolean {
  const { value, mask } = reg.reason('pieces');
  return typeof reg0 === 'number' && (reg0 & mask) >>> 0 === value;
}

interface NetworkHeader {
  readonly source: Ip;
  readonly destination: Ip;
  readonly protocol: number;
  /** Offset of the transport header; absent if the packet does not contain it. */
  readonly at?: number;
}

function readNetwork(bytes: Buffer, etherType: number): NetworkHeader | undefined {
  if (etherType === 0x0800) return readIpv4(bytes);
  return etherType === 0x86dd ? readIpv6(bytes) : undefined;
}

function readIpv4(bytes: Buffer): NetworkHeader | undefined {
  const at = ETHERNET_BYTES;
  if (bytes.length < at + 20) return undefined;
  const headerBytes = (bytes.readUInt8(at) & 0xf) * 4;
  const isFirst = (bytes.readUInt16BE(at + 6) & 0x1fff) === 0;
  if (headerBytes < 20) return undefined;
  return { ...addresses(bytes, at + 12, 4), protocol: bytes.readUInt8(at + 9), ...(isFirst ? { at: at + headerBytes } : {}) };
}

function readIpv6(bytes: Buffer): NetworkHeader | undefined {
  if (bytes.length < ETHERNET_BYTES + IPV6_BYTES) return undefined;
  const ends = addresses(bytes, ETHERNET_BYTES + 8, 16);
  let protocol = bytes.readUInt8(ETHERNET_BYTES + 6);
  let at = ETHERNET_BYTES + IPV6_BYTES;
  for (let count = 0; count < extensionsMax && bytes.length >= at + 8; count++) {
    if (protocol === FRAGMENT) {
      const isFirst = (bytes.readUInt16BE(at + 2) & 0xfff8) === 0;
      protocol = bytes.readUInt8(at);
      if (!isFirst) return { ...ends, protocol };
      at += 8;
    } else if (extensions.has(protocol)) {
      protocol = bytes.readUInt8(at);
      at += 8 * (bytes.readUInt8(at + 1) + 1);
    } else return { ...ends, protocol, at };
  }
  return { ...ends, protocol, ...(protocol === FRAGMENT || extensions.has(protocol) ? {} : { at }) };
}

function addresses(bytes: Buffer, at: number, count: 4 | 16): Pick<NetworkHeader, 'source' | 'destination'> {
  return { source: ipFromBytes(bytes.subarray(at, at + count)), destination: ipFromBytes(bytes.subarray(at + count, at + 2 * count)) };
}

function readTransport(bytes: Buffer, protocol: number, at: number): Pick<DeniedPacket, 'ports' | 'icmp' | 'tcp'> {
  if (bytes.length < at + 4) return {};
  if (icmps.has(protocol)) return { icmp: { type: bytes.readUInt8(at), code: bytes.readUInt8(at + 1) } };
  if (!ported.has(protocol)) return {};
  const ports = { source: bytes.readUInt16BE(at), destination: bytes.readUInt16BE(at + 2) };
  return protocol === TCP && bytes.length >= at + TCP_NUMBERS_BYTES ? { ports, tcp: readTcp(bytes, at) } : { ports };
}

function readTcp(bytes: Buffer, at: number): TcpNumbers {
  return { sequence: bytes.readUInt32BE(at + 4), acknowledgment: bytes.readUInt32BE(at + 8), flags: bytes.readUInt8(at + 13) };
}
