import { ByteReader, ByteWriter } from '../../src/base/bytes/bytes.ts';
import { type Ip, ipFromBytes, ipToBytes } from '../../src/base/net/ip.ts';
import { macFromBytes, macToBytes } from '../../src/base/net/mac.ts';
import type { Packet, Tuple } from '../../src/dataplane/switch-model/packet.ts';

export const etherTypes = { arp: 0x0806, ipv4: 0x0800, ipv6: 0x86dd, vlan: 0x8100, other: 0x88cc } as const;
export const ipProtocols = { icmp: 1, tcp: 6, udp: 17, gre: 47, icmp6: 58, sctp: 132 } as const;
/** RFC 8200 section 4.7. */
export const noNextHeader = 59;
const genevePort = 6081;
/** State of a connection, as both ends count: `seq` and `ack`. */
export const tcpSteps = {
  syn: { flags: 0x02, seq: 1000, ack: 0 },
  'syn-ack': { flags: 0x12, seq: 5000, ack: 1001 },
  ack: { flags: 0x10, seq: 1001, ack: 5001 },
  'ack-back': { flags: 0x10, seq: 5001, ack: 1001 },
  'far-off': { flags: 0x10, seq: 900_000_000, ack: 1_900_000_000 },
  rst: { flags: 0x04, seq: 1001, ack: 0 },
} as const;

/**
 * The bytes of a packet, except the tunnel header; with correct checksums.
 *
 * @param data content of a datagram
 */
export function encodeFrame(packet: Packet, data: Uint8Array = new Uint8Array(8)): Uint8Array {
  const w = new ByteWriter();
  w.raw(macToBytes(packet.ethDst)).raw(macToBytes(packet.ethSrc));
  if (packet.vlan !== undefined) w.u16(etherTypes.vlan).u16(packet.vlan);
  w.u16(etherTypes[packet.payload]).raw(encodePayload(packet, data));
  return w.finish();
}

/** Types and codes of the error for a packet that was too big. Source: RFC 1191 section 4; RFC 4443 section 3.2. */
const tooBig = { ipv4: { protocol: 'icmp', type: 3, code: 4 }, ipv6: { protocol: 'icmp6', type: 2, code: 0 } } as const;

/** Errors whose quoted packet is decoded: that it was too big, and that its TTL or hop limit ended. */
const quoting = [...Object.values(tooBig), { type: 11, code: 0 }, { type: 3, code: 0 }];

/** Smallest MTU of a link with IPv6 (RFC 8200 section 5). */
const leastMtu = 1280;

/** An ICMP error for `quoted` being too big, with `data` (an even number of bytes) after the quotation. */
export function encodeError(
  outer: Required<Pick<Packet, 'ethSrc' | 'ethDst' | 'ipSrc' | 'ipDst'>>,
  quoted: Packet,
  data: Uint8Array,
): Uint8Array {
  const { ipSrc, ipDst } = outer;
  const { protocol, type, code } = tooBig[ipSrc.family];
  const w = new ByteWriter().u8(type).u8(code).u16(0);
  const words = ipSrc.family === 'ipv4' ? w.u16(0).u16(1280) : w.u32(1280);
  const body = words
    .raw(encodePayload(quoted, new Uint8Array(8)))
    .raw(data)
    .finish();
  const before = protocol === 'icmp' ? new Uint8Array(0) : pseudoHeader(ipSrc, ipDst, protocol, body.length);
  const ip = encodeIp({ ipSrc, ipDst, ttl: 64, protocol: ipProtocols[protocol] }, withChecksum(body, 2, before));
  return new ByteWriter().raw(macToBytes(outer.ethDst)).raw(macToBytes(outer.ethSrc)).u16(etherTypes[ipSrc.family]).raw(ip).finish();
}

/** Content of a tunnel's datagram: Geneve (RFC 8926), VNI 0, no options, then the frame. */
export function encodeGeneve(frame: Uint8Array): Uint8Array {
  return new ByteWriter().u16(0).u16(0x6558).u32(0).raw(frame).finish();
}

/** A packet with its tunnel header, from one node to another, without outer checksum. */
export function encodeTunnelled(packet: Packet, link: Pick<Packet, 'ethSrc' | 'ethDst'>): Uint8Array {
  const { tunSrc, tunDst, ...inner } = packet;
  if (!tunSrc || !tunDst) throw new Error('a tunnelled packet needs both outer addresses');
  const carried = encodeGeneve(encodeFrame(inner));
  const udp = new ByteWriter()
    .u16(50_000)
    .u16(genevePort)
    .u16(carried.length + 8)
    .u16(0)
    .raw(carried)
    .finish();
  const w = new ByteWriter().raw(macToBytes(link.ethDst)).raw(macToBytes(link.ethSrc)).u16(etherTypes[tunSrc.family]);
  return w.raw(encodeIp({ ipSrc: tunSrc, ipDst: tunDst, ttl: 64, protocol: ipProtocols.udp }, udp)).finish();
}

function encodePayload(packet: Packet, data: Uint8Array): Uint8Array {
  const { payload, ipSrc, ipDst, ttl = 0, protocol } = packet;
  if (payload === 'other') return new Uint8Array(46);
  if (payload === 'arp') return encodeArp(packet);
  if (!ipSrc || !ipDst) throw new Error('an IP packet needs addresses');
  const body = encodeTransport(packet, ipSrc, ipDst, data);
  return encodeIp({ ipSrc, ipDst, ttl, protocol: protocol === undefined ? noNextHeader : ipProtocols[protocol] }, body);
}

function encodeArp({ arpOp, arpSha, arpSpa, arpTha, arpTpa, ethSrc, ethDst }: Packet): Uint8Array {
  if (!arpSpa || !arpTpa) throw new Error('ARP needs addresses');
  const w = new ByteWriter()
    .u16(1)
    .u16(etherTypes.ipv4)
    .u8(6)
    .u8(4)
    .u16(arpOp === 'request' ? 1 : 2);
  w.raw(macToBytes(arpSha ?? ethSrc)).raw(ipToBytes(arpSpa));
  return w
    .raw(macToBytes(arpTha ?? ethDst))
    .raw(ipToBytes(arpTpa))
    .finish();
}

interface IpHeader {
  readonly ipSrc: Ip;
  readonly ipDst: Ip;
  readonly ttl: number;
  readonly protocol: number;
}

function encodeIp({ ipSrc, ipDst, ttl, protocol }: IpHeader, body: Uint8Array): Uint8Array {
  const w = new ByteWriter();
  if (ipSrc.family === 'ipv6') w.u32(0x6000_0000).u16(body.length).u8(protocol).u8(ttl);
  else
    w.u16(0x4500)
      .u16(body.length + 20)
      .u16(0)
      .u16(0x4000)
      .u8(ttl)
      .u8(protocol)
      .u16(0);
  w.raw(ipToBytes(ipSrc)).raw(ipToBytes(ipDst));
  if (ipSrc.family === 'ipv4') w.patchU16(10, checksum(w.finish()));
  return w.raw(body).finish();
}

function encodeTransport(packet: Packet, ipSrc: Ip, ipDst: Ip, data: Uint8Array): Uint8Array {
  const { protocol, portSrc = 0, portDst = 0 } = packet;
  const pseudo = (body: Uint8Array, at: number): Uint8Array => withChecksum(body, at, pseudoHeader(ipSrc, ipDst, protocol, body.length));
  switch (protocol) {
    case 'tcp': {
      const { flags, seq, ack } = tcpSteps[packet.tcpFlags ?? 'syn'];
      return pseudo(new ByteWriter().u16(portSrc).u16(portDst).u32(seq).u32(ack).u8(0x50).u8(flags).u16(64_000).u32(0).finish(), 16);
    }
    case 'udp':
      return pseudo(
        new ByteWriter()
          .u16(portSrc)
          .u16(portDst)
          .u16(8 + data.length)
          .u16(0)
          .raw(data)
          .finish(),
        6,
      );
    case 'icmp':
      return withChecksum(encodeIcmp(packet), 2, new Uint8Array(0));
    case 'icmp6':
      return pseudo(encodeIcmp(packet), 2);
    case 'sctp':
      // RFC 9260 sections 3 and 3.3.6: the ports, a checksum that is not verified here, and a chunk of data.
      return new ByteWriter()
        .u16(portSrc)
        .u16(portDst)
        .u32(1)
        .u32(0)
        .u32(4 + data.length)
        .raw(data)
        .finish();
    case 'gre':
      // A frame has 14 bytes at least.
      return new ByteWriter()
        .u16(0)
        .u16(0x6558)
        .raw(data.length < 14 ? new Uint8Array(14) : data)
        .finish();
    default:
      return new Uint8Array(8);
  }
}

/** Source: RFC 792; RFC 4861 section 4. Flags of advertisements are "solicited" and "override". */
function encodeIcmp({ ethSrc, ethDst, icmpType = 0, icmpCode = 0, icmpId = 0, ndTarget, ndSll, ndTll, quotes }: Packet): Uint8Array {
  const w = new ByteWriter().u8(icmpType).u8(icmpCode).u16(0);
  if (quotes) {
    const { src: ipSrc, dst: ipDst, protocol, srcPort: portSrc, dstPort: portDst } = quotes;
    const quoted = {
      ethSrc,
      ethDst,
      payload: ipSrc.family,
      ipSrc,
      ipDst,
      ttl: 63,
      portSrc,
      portDst,
      ...(protocol && { protocol }),
    } as const;
    return w
      .u32(leastMtu)
      .raw(encodePayload(quoted, new Uint8Array(8)))
      .finish();
  }
  if (!ndTarget)
    return w
      .u16(icmpId)
      .u16(1)
      .zeros(icmpType === 137 ? 32 : 8)
      .finish();
  w.u32(icmpType === 136 ? 0x6000_0000 : 0).raw(ipToBytes(ndTarget));
  if (ndSll) w.u8(1).u8(1).raw(macToBytes(ndSll));
  if (ndTll) w.u8(2).u8(1).raw(macToBytes(ndTll));
  return w.finish();
}

function withChecksum(body: Uint8Array, at: number, before: Uint8Array): Uint8Array {
  new DataView(body.buffer, body.byteOffset).setUint16(at, checksum(Buffer.concat([before, body])));
  return body;
}

function pseudoHeader(src: Ip, dst: Ip, protocol: Packet['protocol'], length: number): Uint8Array {
  return new ByteWriter()
    .raw(ipToBytes(src))
    .raw(ipToBytes(dst))
    .u32(length)
    .u32(protocol === undefined ? 0 : ipProtocols[protocol])
    .finish();
}

/** Source: RFC 1071. */
function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (let at = 0; at < bytes.length; at += 2) sum += ((bytes[at] ?? 0) << 8) | (bytes[at + 1] ?? 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  return ~sum & 0xffff;
}

/** @throws Error if a checksum is wrong: every receiver would drop the packet */
export function decodeFrame(bytes: Uint8Array): Packet {
  const r = new ByteReader(bytes, 'frame');
  const [ethDst, ethSrc] = [macFromBytes(r.raw(6)), macFromBytes(r.raw(6))];
  let type = r.u16();
  const tag = type === etherTypes.vlan ? { vlan: r.u16() & 0xfff } : {};
  if ('vlan' in tag) type = r.u16();
  const link = { ethSrc, ethDst, ...tag };
  if (type === etherTypes.arp) return { ...link, payload: 'arp', ...decodeArp(r) };
  if (type !== etherTypes.ipv4 && type !== etherTypes.ipv6) return { ...link, payload: 'other' };
  const { header, body } = decodeIp(r, type);
  if (header.protocol === ipProtocols.udp && new DataView(body.buffer, body.byteOffset).getUint16(2) === genevePort && body.length > 16)
    return { ...decodeFrame(body.subarray(16)), tunSrc: header.ipSrc, tunDst: header.ipDst };
  const { ipSrc, ipDst, ttl } = header;
  return { ...link, payload: ipSrc.family, ipSrc, ipDst, ttl, ...decodeTransport(header, body) };
}

function decodeArp(r: ByteReader): Partial<Packet> {
  const arpOp = r.skip(6).u16() === 1 ? 'request' : 'reply';
  const [arpSha, arpSpa] = [macFromBytes(r.raw(6)), ipFromBytes(r.raw(4))];
  return { arpOp, arpSha, arpSpa, arpTha: macFromBytes(r.raw(6)), arpTpa: ipFromBytes(r.raw(4)) };
}

function decodeIp(r: ByteReader, type: number): { header: IpHeader; body: Uint8Array } {
  if (type === etherTypes.ipv4) {
    const head = r.raw(20);
    const h = new ByteReader(head, 'IPv4 header');
    const length = h.skip(2).u16();
    const [ttl, protocol] = [h.skip(4).u8(), h.u8()];
    if (checksum(head) !== 0) throw new Error('wrong IPv4 header checksum');
    return { header: { ttl, protocol, ipSrc: ipFromBytes(h.skip(2).raw(4)), ipDst: ipFromBytes(h.raw(4)) }, body: r.raw(length - 20) };
  }
  const length = r.skip(4).u16();
  const [protocol, ttl] = [r.u8(), r.u8()];
  return { header: { ttl, protocol, ipSrc: ipFromBytes(r.raw(16)), ipDst: ipFromBytes(r.raw(16)) }, body: r.raw(length) };
}

function decodeTransport({ ipSrc, ipDst, protocol: number }: IpHeader, body: Uint8Array): Partial<Packet> {
  const protocol = (Object.keys(ipProtocols) as (keyof typeof ipProtocols)[]).find((name) => ipProtocols[name] === number);
  if (protocol === undefined) return {};
  if (protocol === 'sctp')
    return { protocol, portSrc: (body[0] ?? 0) * 256 + (body[1] ?? 0), portDst: (body[2] ?? 0) * 256 + (body[3] ?? 0) };
  if (protocol === 'gre') return { protocol };
  const before = protocol === 'icmp' ? new Uint8Array(0) : pseudoHeader(ipSrc, ipDst, protocol, body.length);
  if (checksum(Buffer.concat([before, body])) !== 0) throw new Error(`wrong ${protocol} checksum`);
  const r = new ByteReader(body, protocol);
  if (protocol === 'icmp' || protocol === 'icmp6') return { protocol, ...decodeIcmp(r) };
  const ports = { protocol, portSrc: r.u16(), portDst: r.u16() };
  return protocol === 'udp' ? ports : { ...ports, tcpFlags: tcpStep(r.u32(), r.skip(5).u8()) };
}

function tcpStep(seq: number, flags: number): keyof typeof tcpSteps {
  const found = (Object.keys(tcpSteps) as (keyof typeof tcpSteps)[]).find(
    (name) => tcpSteps[name].flags === flags && tcpSteps[name].seq === seq,
  );
  if (!found) throw new Error(`unknown TCP segment: flags ${flags}, sequence ${seq}`);
  return found;
}

function decodeIcmp(r: ByteReader): Partial<Packet> {
  const [icmpType, icmpCode] = [r.u8(), r.u8()];
  r.skip(2);
  if (quoting.some(({ type, code }) => type === icmpType && code === icmpCode) && r.remaining > 28)
    return { icmpType, icmpCode, quotes: decodeQuoted(r.skip(4)) };
  if (icmpType !== 135 && icmpType !== 136) {
    const icmpId = r.u16();
    return icmpId === 0 ? { icmpType, icmpCode } : { icmpType, icmpCode, icmpId };
  }
  const ndTarget = ipFromBytes(r.skip(4).raw(16));
  if (r.remaining === 0) return { icmpType, icmpCode, ndTarget };
  const option = r.u8();
  const mac = macFromBytes(r.skip(1).raw(6));
  return { icmpType, icmpCode, ndTarget, ...(option === 1 ? { ndSll: mac } : { ndTll: mac }) };
}

/** Protocol numbers of TCP and UDP. */
function decodeQuoted(r: ByteReader): Tuple {
  const bytes = r.raw(r.remaining);
  const version = (bytes[0] ?? 0) >>> 4;
  const { header, body } = decodeIp(new ByteReader(bytes, 'quoted packet'), version === 4 ? etherTypes.ipv4 : etherTypes.ipv6);
  const ports = new ByteReader(body, 'quoted ports');
  const protocol = header.protocol === ipProtocols.tcp ? 'tcp' : 'udp';
  return { protocol, src: header.ipSrc, dst: header.ipDst, srcPort: ports.u16(), dstPort: ports.u16() };
}
