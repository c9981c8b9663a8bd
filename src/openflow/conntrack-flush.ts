import type { ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { type Ip, ipToBytes } from '../base/net/ip.ts';
import { writeProperty } from './properties.ts';
import { beginNicira, endMessage } from './protocol.ts';

/** One direction of a connection; absent members match anything. */
export interface ConntrackTuple {
  readonly src?: Ip;
  readonly dst?: Ip;
  /** Not 0: the switch would take it for "any" instead of matching port 0. */
  readonly srcPort?: number;
  readonly dstPort?: number;
  /** Echo of IPv4, in place of ports. Open vSwitch 3.1.0 aborts on a complete tuple of ICMPv6, so there is none for it. */
  readonly icmp?: { readonly id: number; readonly type: number; readonly code: number };
}

/** Selects tracked connections of one zone. */
export interface ConntrackMatch {
  readonly zone: number;
  readonly ipProtocol: number;
  /** The client's packets before translation. */
  readonly original?: ConntrackTuple;
  /** The endpoint's replies before they are translated back. */
  readonly reply?: ConntrackTuple;
}

/**
 * Deletes the tracked connections that match. The switch lists the zone's connections for each of these messages, on both data paths,
 * unless the original tuple is complete, and sends no answer; a barrier reply shows that it is done.
 *
 * Source: Open vSwitch 3.1 `NXT_CT_FLUSH`, `struct nx_ct_flush` (u8 protocol, 7 zero, properties), `nx_ct_flush_tlv_type`; bytes as
 * `ovs-ofctl ct-flush` sends them. IPv4 addresses are mapped into IPv6.
 */
export function writeConntrackFlush(w: ByteWriter, { zone, ipProtocol, original, reply }: ConntrackMatch): void {
  const start = beginNicira(w, NXT_CT_FLUSH);
  w.u8(ipProtocol).zeros(7);
  if (ipProtocol === ICMPV6 && original?.src && original.dst)
    throw new SeineError('INVARIANT', 'a complete tuple of ICMPv6 aborts OVS 3.1.0');
  if (original) writeTuple(w, property.original, original);
  if (reply) writeTuple(w, property.reply, reply);
  writeProperty(w, property.zone, () => w.u16(zone).zeros(2));
  endMessage(w, start);
}

const ICMPV6 = 58;
const NXT_CT_FLUSH = 32;
const property = { original: 0, reply: 1, zone: 2 } as const;
const tupleProperty = { src: 0, dst: 1, srcPort: 2, dstPort: 3, icmpId: 4, icmpType: 5, icmpCode: 6 } as const;

function writeTuple(w: ByteWriter, type: number, { src, dst, srcPort, dstPort, icmp }: ConntrackTuple): void {
  writeProperty(w, type, () => {
    w.zeros(4);
    if (src) writeProperty(w, tupleProperty.src, () => w.raw(mapped(src)));
    if (dst) writeProperty(w, tupleProperty.dst, () => w.raw(mapped(dst)));
    if (srcPort !== undefined) writeProperty(w, tupleProperty.srcPort, () => w.u16(srcPort).zeros(2));
    if (dstPort !== undefined) writeProperty(w, tupleProperty.dstPort, () => w.u16(dstPort).zeros(2));
    if (!icmp) return;
    writeProperty(w, tupleProperty.icmpId, () => w.u16(icmp.id).zeros(2));
    writeProperty(w, tupleProperty.icmpType, () => w.u8(icmp.type).zeros(3));
    writeProperty(w, tupleProperty.icmpCode, () => w.u8(icmp.code).zeros(3));
  });
}

/** RFC 4291 section 2.5.5.2. */
function mapped(ip: Ip): Uint8Array {
  const bytes = ipToBytes(ip);
  return ip.family === 'ipv6' ? bytes : Uint8Array.of(...new Array<number>(10).fill(0), 0xff, 0xff, ...bytes);
}
