import { type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';
import { ETHERNET_BYTES, IPV6_BYTES, icmpError, ipProtocol } from './ip-frame.ts';

/**
 * ICMP time exceeded about a packet whose TTL or hop limit ended. Pure: frames in, frames out. A packet may be cut short behind its headers.
 *
 * Sources: RFC 792 "Time Exceeded Message", RFC 1812 sections 4.3.2.7 and 5.3.1; RFC 4443 sections 2.4 (e) and 3.3.
 */

const exceeded: Readonly<Record<Family, { readonly type: number; readonly code: number }>> = {
  ipv4: { type: 11, code: 0 },
  ipv6: { type: 3, code: 0 },
};

/** Types of ICMP errors and redirects, about which no error is sent. Source: RFC 1122 section 3.2.2. */
const errorTypes: ReadonlySet<number> = new Set([3, 4, 5, 11, 12]);
/** First type of ICMPv6 that is not an error, and redirects. Source: RFC 4443 section 2.1, RFC 4861 section 4.5. */
const icmp6 = { firstQuery: 128, redirect: 137 } as const;

/** IPv6 extension headers, and the most of them that are read. Source: RFC 8200 section 4, RFC 4302 section 2. */
const extension = { hopByHop: 0, routing: 43, fragment: 44, authentication: 51, destination: 60 } as const;
const extensionsMax = 8;

/** Hop that answers. */
interface Hop {
  readonly mac: Mac;
  /** At most one address of each family. */
  readonly addresses: readonly Ip[];
}

/** Ends of the packet, and what its protocol carries. */
interface Expired {
  readonly family: Family;
  readonly source: Buffer;
  readonly destination: Buffer;
  readonly protocol: number;
  readonly payload: Buffer;
}

/**
 * @param nextHop MAC to which the answer is sent
 * @returns undefined where no error may be sent: about errors, fragments other than the first, packets to or from several hosts
 */
export function timeExceeded(frame: Uint8Array, hop: Hop, nextHop: Mac): Uint8Array | undefined {
  const bytes = Buffer.from(frame.buffer, frame.byteOffset, frame.byteLength);
  if (bytes.length < ETHERNET_BYTES) return undefined;
  const etherType = bytes.subarray(12, ETHERNET_BYTES);
  const packet = bytes.subarray(ETHERNET_BYTES);
  const expired = readExpired(etherType.readUInt16BE(0), packet);
  const address = expired && hop.addresses.find(({ family }) => family === expired.family);
  if (!address || !isAnswered(expired)) return undefined;
  const ends = { family: expired.family, source: ipToBytes(address), destination: expired.source };
  const answer = icmpError(ends, exceeded[expired.family], packet.subarray(0, packetLength(expired.family, packet)));
  return Buffer.concat([macToBytes(nextHop), macToBytes(hop.mac), etherType, answer]);
}

/** Length of the packet as its header states it: a short frame is padded. */
function packetLength(family: Family, packet: Buffer): number {
  return family === 'ipv4' ? packet.readUInt16BE(2) : IPV6_BYTES + packet.readUInt16BE(4);
}

function readExpired(etherType: number, packet: Buffer): Expired | undefined {
  if (etherType === 0x0800) return readIpv4(packet);
  return etherType === 0x86dd ? readIpv6(packet) : undefined;
}

function readIpv4(packet: Buffer): Expired | undefined {
  if (packet.length < 20 || packet.readUInt8(0) >>> 4 !== 4) return undefined;
  const headerBytes = (packet.readUInt8(0) & 0xf) * 4;
  const length = packet.readUInt16BE(2);
  const offset = packet.readUInt16BE(6) & 0x1fff;
  if (headerBytes < 20 || length < headerBytes || packet.length < headerBytes || offset !== 0) return undefined;
  const [source, destination] = [packet.subarray(12, 16), packet.subarray(16, 20)];
  return { family: 'ipv4', source, destination, protocol: packet.readUInt8(9), payload: packet.subarray(headerBytes, length) };
}

function readIpv6(packet: Buffer): Expired | undefined {
  if (packet.length < IPV6_BYTES || packet.readUInt8(0) >>> 4 !== 6) return undefined;
  const whole = packet.subarray(0, packetLength('ipv6', packet));
  const upper = readUpperLayer(whole, packet.readUInt8(6));
  return upper && { family: 'ipv6', source: packet.subarray(8, 24), destination: packet.subarray(24, 40), ...upper };
}

/** @returns undefined behind too many extension headers, or if the packet is cut short within them */
function readUpperLayer(packet: Buffer, first: number): Pick<Expired, 'protocol' | 'payload'> | undefined {
  let [protocol, at] = [first, IPV6_BYTES];
  for (let headers = 0; headers <= extensionsMax; headers++) {
    const length = extensionBytes(protocol, packet.subarray(at));
    if (length === 'upper layer') return { protocol, payload: packet.subarray(at) };
    if (length === undefined || at + length > packet.length) return undefined;
    [protocol, at] = [packet.readUInt8(at), at + length];
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

function isAnswered(expired: Expired): boolean {
  return isOneHost(expired.family, expired.source) && isOneHost(expired.family, expired.destination) && !isError(expired);
}

/** Reports whether an address is that of one host: not unspecified, loopback, multicast, broadcast or reserved. */
function isOneHost(family: Family, address: Buffer): boolean {
  const first = address.readUInt8(0);
  if (family === 'ipv4') return first !== 0 && first !== 127 && first < 224;
  const isLow = address.subarray(0, 15).every((byte) => byte === 0) && address.readUInt8(15) <= 1;
  return first !== 0xff && !isLow;
}

/** Also reports packets that do not show their type. */
function isError({ family, protocol, payload }: Expired): boolean {
  if (protocol !== (family === 'ipv4' ? ipProtocol.icmp : ipProtocol.icmp6)) return false;
  if (payload.length === 0) return true;
  const type = payload.readUInt8(0);
  return family === 'ipv4' ? errorTypes.has(type) : type < icmp6.firstQuery || type === icmp6.redirect;
}
