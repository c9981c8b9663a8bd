import type { Ip } from '../../base/net/ip.ts';
import type { Mac } from '../../base/net/mac.ts';
import type { MatchProtocol, Payload } from '../pipeline/flow.ts';

/** A packet as the bridge sees it: headers only, flat, named as in `Match`. A field is present if the packet has that header. */
export interface Packet {
  readonly ethSrc: Mac;
  readonly ethDst: Mac;
  /** VLAN id, if tagged. */
  readonly vlan?: number;
  readonly payload: Payload | 'other';
  readonly protocol?: MatchProtocol;
  readonly ipSrc?: Ip;
  readonly ipDst?: Ip;
  /** TTL or hop limit. */
  readonly ttl?: number;
  readonly portSrc?: number;
  readonly portDst?: number;
  /** `far-off`: out of any window. */
  readonly tcpFlags?: 'syn' | 'syn-ack' | 'ack' | 'ack-back' | 'far-off' | 'rst';
  readonly icmpType?: number;
  readonly icmpCode?: number;
  /** Identifier of an echo, which distinguishes pings like ports do connections. */
  readonly icmpId?: number;
  /** Packet that an ICMP error is about. */
  readonly quotes?: Tuple;
  readonly ndTarget?: Ip;
  readonly ndSll?: Mac;
  readonly ndTll?: Mac;
  readonly arpOp?: 'request' | 'reply';
  readonly arpSha?: Mac;
  readonly arpSpa?: Ip;
  readonly arpTha?: Mac;
  readonly arpTpa?: Ip;
  /** Outer addresses of a packet on the tunnel. */
  readonly tunSrc?: Ip;
  readonly tunDst?: Ip;
  /** Key of the tunnel; absent: 0. */
  readonly tunKey?: number;
}

export const echoRequest = { icmp: 8, icmp6: 128 } as const;
export const echoReply = { icmp: 0, icmp6: 129 } as const;

/** One line of text, equal for equal packets. */
export function describePacket(packet: Packet): string {
  const tunnel = packet.tunSrc || packet.tunDst ? `tunnel ${packet.tunSrc?.text ?? '?'} > ${packet.tunDst?.text ?? '?'} ` : '';
  const tag = packet.vlan === undefined ? '' : `vlan ${packet.vlan} `;
  return `${tunnel}${packet.ethSrc} > ${packet.ethDst} ${tag}${describePayload(packet)}`;
}

function describePayload(packet: Packet): string {
  const { payload, arpOp, arpSpa, arpSha, arpTpa, arpTha } = packet;
  if (payload === 'other') return 'other';
  if (payload === 'arp') return `arp ${arpOp} from ${arpSpa?.text} at ${arpSha} about ${arpTpa?.text} at ${arpTha}`;
  const { protocol, ipSrc, ipDst, portSrc, portDst, ttl } = packet;
  const ports = portSrc === undefined && portDst === undefined ? ['', ''] : [`:${portSrc}`, `:${portDst}`];
  const details = [
    packet.tcpFlags,
    packet.icmpType === undefined ? undefined : `type ${packet.icmpType}/${packet.icmpCode ?? 0}`,
    packet.icmpId === undefined ? undefined : `id ${packet.icmpId}`,
    packet.quotes && `about ${tupleKey(packet.quotes)}`,
    packet.ndTarget && `target ${packet.ndTarget.text}`,
    packet.ndSll && `sll ${packet.ndSll}`,
    packet.ndTll && `tll ${packet.ndTll}`,
    `ttl ${ttl}`,
  ];
  const said = details.filter((detail) => detail !== undefined).join(' ');
  return `${payload} ${protocol ?? ''} ${ipSrc?.text}${ports[0]} > ${ipDst?.text}${ports[1]} ${said}`;
}

/** Addresses and ports of one direction. */
export interface Tuple {
  readonly protocol: MatchProtocol | undefined;
  readonly src: Ip;
  readonly dst: Ip;
  readonly srcPort: number;
  readonly dstPort: number;
}

/** Tuple of a packet; an echo has one number in place of two ports. @returns undefined for a packet without IP addresses */
export function tupleOf({ protocol, ipSrc, ipDst, portSrc, portDst, icmpId }: Packet): Tuple | undefined {
  if (!ipSrc || !ipDst) return undefined;
  return { protocol, src: ipSrc, dst: ipDst, srcPort: portSrc ?? icmpId ?? 0, dstPort: portDst ?? icmpId ?? 0 };
}

export function reversed({ protocol, src, dst, srcPort, dstPort }: Tuple): Tuple {
  return { protocol, src: dst, dst: src, srcPort: dstPort, dstPort: srcPort };
}

export function tupleKey({ protocol, src, dst, srcPort, dstPort }: Tuple): string {
  return `${protocol} ${src.text} ${srcPort} ${dst.text} ${dstPort}`;
}

/** The packet with these addresses and ports. */
export function withTuple(packet: Packet, { src, dst, srcPort, dstPort }: Tuple): Packet {
  const ports = packet.portSrc === undefined ? {} : { portSrc: srcPort, portDst: dstPort };
  return { ...packet, ipSrc: src, ipDst: dst, ...ports };
}

/** The error with another quoted packet, and another source or destination if the translation changes that end. */
export function withQuoted(packet: Packet, before: Tuple, after: Tuple): Packet {
  return {
    ...packet,
    ...(before.src.text !== after.src.text && { ipSrc: after.src }),
    ...(before.dst.text !== after.dst.text && { ipDst: after.dst }),
    quotes: reversed(after),
  };
}

/** Reports whether a connection can begin with it. An answer cannot. */
export function mayOpen({ protocol, tcpFlags, icmpType }: Packet): boolean {
  if (protocol === 'tcp') return tcpFlags !== 'syn-ack' && tcpFlags !== 'rst';
  if (protocol === 'icmp' || protocol === 'icmp6') return icmpType === echoRequest[protocol];
  return true;
}
