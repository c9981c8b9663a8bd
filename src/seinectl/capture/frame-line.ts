import { ipFromBytes } from '../../base/net/ip.ts';
import { macFromBytes } from '../../base/net/mac.ts';

const ETHERTYPES: Readonly<Record<number, string>> = { 2054: 'arp', 33024: 'vlan', 34525: 'ipv6', 2048: 'ipv4' };
const PROTOCOLS: Readonly<Record<number, string>> = { 1: 'icmp', 6: 'tcp', 17: 'udp', 58: 'icmpv6', 132: 'sctp' };
const WITH_PORTS: ReadonlySet<number> = new Set([6, 17, 132]);
/** Flags of TCP, from the lowest bit. */
const TCP_FLAGS = 'FSRPAUEC';
const IPV6_FRAGMENT = 44;

/** Headers of a packet. */
interface InnerPacket {
  readonly protocol: number;
  readonly payload: Buffer;
  /** The first fragment, and unfragmented packets, have ports. */
  readonly piece: 'whole' | 'first' | 'later';
}

/**
 * Formats a frame as a line: `out 10.1.0.2:40112 > 10.1.0.3:80 tcp [S] 74`. The contents of a frame are untrusted: missing parts are left
 * out.
 *
 * @param bytes its whole length
 * @param podMac source of frames that come `out` of the pod
 */
export function frameLine(frame: Uint8Array, bytes: number, podMac: string): string {
  const frameBytes = Buffer.from(frame.buffer, frame.byteOffset, frame.length);
  if (frameBytes.length < 14) return `??? a frame of ${bytes} bytes`;
  const source = macFromBytes(frameBytes.subarray(6, 12));
  const way = source === podMac ? 'out' : 'in ';
  const type = frameBytes.readUInt16BE(12);
  const what = packetText(type, frameBytes.subarray(14)) ?? `${source} > ${macFromBytes(frameBytes.subarray(0, 6))} ${typeText(type)}`;
  return `${way} ${what} ${bytes}`;
}

function typeText(type: number): string {
  return ETHERTYPES[type] ?? `0x${type.toString(16).padStart(4, '0')}`;
}

function packetText(type: number, packet: Buffer): string | undefined {
  if (type === 0x0806) return arpText(packet);
  if (type === 0x0800 && packet.length >= 20) return ipv4Text(packet);
  if (type === 0x86dd && packet.length >= 40) return ipv6Text(packet);
  return undefined;
}

function arpText(packet: Buffer): string | undefined {
  if (packet.length < 28 || packet.readUInt32BE(0) !== 0x0001_0800 || packet.readUInt16BE(4) !== 0x0604) return undefined;
  const [sender, target] = [addressAt(packet, 14, 4), addressAt(packet, 24, 4)];
  if (packet.readUInt16BE(6) === 1) return `${sender} > ${target} arp who-has`;
  return `${sender} > ${target} arp is-at ${macFromBytes(packet.subarray(8, 14))}`;
}

function ipv4Text(packet: Buffer): string {
  const fragment = packet.readUInt16BE(6);
  const piece = (fragment & 0x1fff) > 0 ? 'later' : (fragment & 0x2000) > 0 ? 'first' : 'whole';
  const payload = packet.subarray((packet.readUInt8(0) & 0xf) * 4);
  return transportText([addressAt(packet, 12, 4), addressAt(packet, 16, 4)], { protocol: packet.readUInt8(9), payload, piece });
}

function ipv6Text(packet: Buffer): string {
  const ends = [addressAt(packet, 8, 16), addressAt(packet, 24, 16)] as const;
  const [protocol, payload] = [packet.readUInt8(6), packet.subarray(40)];
  if (protocol !== IPV6_FRAGMENT || payload.length < 8) return transportText(ends, { protocol, payload, piece: 'whole' });
  const piece = payload.readUInt16BE(2) >> 3 > 0 ? 'later' : 'first';
  return transportText(ends, { protocol: payload.readUInt8(0), payload: payload.subarray(8), piece });
}

function transportText([source, destination]: readonly [string, string], { protocol, payload, piece }: InnerPacket): string {
  const name = PROTOCOLS[protocol] ?? `protocol ${protocol}`;
  const asFragments = piece === 'whole' ? '' : ` (${piece} fragment)`;
  if (piece === 'later' || payload.length < 4) return `${source} > ${destination} ${name}${asFragments}`;
  if (!WITH_PORTS.has(protocol)) return `${source} > ${destination} ${name}${icmpText(protocol, payload)}${asFragments}`;
  const [from, to] = [withPort(source, payload.readUInt16BE(0)), withPort(destination, payload.readUInt16BE(2))];
  return `${from} > ${to} ${name}${protocol === 6 ? flagsText(payload) : ''}${asFragments}`;
}

function withPort(address: string, port: number): string {
  return address.includes(':') ? `[${address}]:${port}` : `${address}:${port}`;
}

function icmpText(protocol: number, payload: Buffer): string {
  return protocol === 1 || protocol === 58 ? ` type ${payload.readUInt8(0)} code ${payload.readUInt8(1)}` : '';
}

function flagsText(payload: Buffer): string {
  if (payload.length < 14) return '';
  const flags = payload.readUInt8(13);
  return ` [${[...TCP_FLAGS].filter((_, bit) => (flags >> bit) & 1).join('')}]`;
}

function addressAt(packet: Buffer, offset: number, length: 4 | 16): string {
  return ipFromBytes(packet.subarray(offset, offset + length)).text;
}
