import type { Family, Ip } from '../base/net/ip.ts';
import { ipToBytes } from '../base/net/ip.ts';
import type { Attributes } from './attributes.ts';
import { EventSocket, receiveQueueBytes } from './event-socket.ts';
import { familyNumber, ipIn } from './kernel-values.ts';
import { type Batch, type NetlinkMessage, splitPayload } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import { type ListRequest, NetlinkSocket } from './socket.ts';

/** One direction of a connection. */
interface ConnectionTuple {
  readonly src: Ip;
  readonly dst: Ip;
  readonly srcPort: number;
  readonly dstPort: number;
}

/** Entry of the kernel's connection tracker. Source: `CTA_*` of linux/netfilter/nfnetlink_conntrack.h. */
export interface TrackedConnection {
  readonly family: Family;
  /** IP protocol with ports. */
  readonly ipProtocol: number;
  readonly zone: number;
  /** Identifier that distinguishes it from a later one with the same tuple. */
  readonly id: number;
  readonly original: ConnectionTuple;
  readonly reply: ConnectionTuple;
  /** Absent if it is 0, or the kernel has no marks. */
  readonly mark?: number;
  /** `enum tcp_conntrack` of linux/netfilter/nf_conntrack_tcp.h; absent for other protocols. */
  readonly tcpState?: number;
}

/** Values of `tcpState` for connections closed by both ends, which the kernel keeps for late packets only. */
export const tcpEnded: ReadonlySet<number> = new Set([6, 7, 8]);

interface ConnectionFilter {
  readonly family: Family;
  readonly ipProtocol: number;
  /** Destination port of the original direction. */
  readonly dstPort?: number;
}

/**
 * Lists connections of one protocol. Kernels from 5.8 on filter themselves; on older ones everything is read and filtered here.
 *
 * @param socket of protocol `netfilter`
 */
export function listConnections(socket: NetlinkSocket, filter: ConnectionFilter): TrackedConnection[] {
  return socket.list(connectionList(filter));
}

/** Like `listConnections`, in a thread: the socket must not be used meanwhile. See `NetlinkSocket.listOffThread`. */
export async function listConnectionsOffThread(socket: NetlinkSocket, filter: ConnectionFilter): Promise<TrackedConnection[]> {
  return await socket.listOffThread(connectionList(filter));
}

function connectionList({ family, ipProtocol, dstPort }: ConnectionFilter): ListRequest<TrackedConnection> {
  return {
    type: CT_GET,
    what: `list ${family} connections`,
    body: (batch) => {
      nfgenmsg(batch, family);
      batch.nested(CTA_TUPLE_ORIG, () =>
        batch.nested(CTA_TUPLE_PROTO, () => {
          batch.attributeU8(CTA_PROTO_NUM, ipProtocol);
          if (dstPort !== undefined) batch.attribute(CTA_PROTO_DST_PORT, port(dstPort));
        }),
      );
      batch.nested(NLA_F_NESTED | CTA_FILTER, () => {
        batch.attributeU32(CTA_FILTER_ORIG_FLAGS, FILTER_PROTO_NUM | (dstPort === undefined ? 0 : FILTER_PROTO_DST_PORT));
        batch.attributeU32(CTA_FILTER_REPLY_FLAGS, 0);
      });
    },
    decode: (message) => {
      const found = decodeConnection(message);
      if (found?.family !== family || found.ipProtocol !== ipProtocol) return undefined;
      return dstPort === undefined || found.original.dstPort === dstPort ? found : undefined;
    },
  };
}

/** Fails with `ENOENT` if the connection no longer exists. */
export function deleteConnection(batch: Batch, { family, ipProtocol, zone, id, original }: TrackedConnection): void {
  const { src, dst, srcPort, dstPort } = original;
  batch.message(CT_DELETE, 0, `delete connection ${src.text} to ${dst.text} port ${dstPort}`, () => {
    nfgenmsg(batch, family);
    batch.nested(CTA_TUPLE_ORIG, () => {
      batch.nested(CTA_TUPLE_IP, () => batch.attribute(ipTypes[family].src, ipToBytes(src)).attribute(ipTypes[family].dst, ipToBytes(dst)));
      batch.nested(CTA_TUPLE_PROTO, () =>
        batch
          .attributeU8(CTA_PROTO_NUM, ipProtocol)
          .attribute(CTA_PROTO_SRC_PORT, port(srcPort))
          .attribute(CTA_PROTO_DST_PORT, port(dstPort)),
      );
    });
    if (zone !== 0) batch.attribute(CTA_ZONE, port(zone));
    const idBytes = new Uint8Array(4);
    new DataView(idBytes.buffer).setUint32(0, id);
    batch.attribute(CTA_ID, idBytes);
  });
}

/** Counters and times of a connection that has ended, as far as the kernel kept them. */
export interface EndedConnection extends TrackedConnection {
  /** Absent if accounting was off when it was opened. */
  readonly packets?: { readonly out: number; readonly in: number };
  readonly bytes?: { readonly out: number; readonly in: number };
  /** Unix time (ms) of its begin, and of its removal from the table; absent if timestamps were off. */
  readonly startedMs?: number;
  readonly removedMs?: number;
}

/** Decodes an `IPCTNL_MSG_CT_DELETE` event; undefined for other messages and protocols without ports. @throws SeineError `PROTOCOL` */
function decodeEnded(message: NetlinkMessage): EndedConnection | undefined {
  if (message.type !== CT_DELETE) return undefined;
  const { head, attributes } = splitPayload(message.payload, 4, 'connection');
  const connection = connectionIn(head, attributes);
  if (!connection) return undefined;
  const [out, back] = [countersIn(attributes.nested(CTA_COUNTERS_ORIG)), countersIn(attributes.nested(CTA_COUNTERS_REPLY))];
  const times = attributes.nested(CTA_TIMESTAMP);
  const [startedNs, stoppedNs] = [times && bigEndian64(times, CTA_TIMESTAMP_START), times && bigEndian64(times, CTA_TIMESTAMP_STOP)];
  return {
    ...connection,
    ...(out && back && { packets: { out: out.packets, in: back.packets }, bytes: { out: out.bytes, in: back.bytes } }),
    ...(startedNs !== undefined && { startedMs: startedNs / NANOSECONDS_PER_MS }),
    ...(stoppedNs !== undefined && { removedMs: stoppedNs / NANOSECONDS_PER_MS }),
  };
}

/** Decodes an `IPCTNL_MSG_CT_NEW`; undefined for protocols without ports. @throws SeineError `PROTOCOL` */
function decodeConnection(message: NetlinkMessage): TrackedConnection | undefined {
  if (message.type !== CT_NEW) return undefined;
  const { head, attributes } = splitPayload(message.payload, 4, 'connection');
  return connectionIn(head, attributes);
}

function connectionIn(head: DataView, attributes: Attributes): TrackedConnection | undefined {
  const family = head.getUint8(0) === familyNumber.ipv4 ? 'ipv4' : head.getUint8(0) === familyNumber.ipv6 ? 'ipv6' : undefined;
  const [from, back] = [attributes.nested(CTA_TUPLE_ORIG), attributes.nested(CTA_TUPLE_REPLY)];
  if (family === undefined || !from || !back) return undefined;
  const [original, reply] = [tupleIn(from, family), tupleIn(back, family)];
  const ipProtocol = from.nested(CTA_TUPLE_PROTO)?.u8(CTA_PROTO_NUM);
  if (!original || !reply || ipProtocol === undefined) return undefined;
  const mark = bigEndian32(attributes, CTA_MARK);
  const tcpState = attributes.nested(CTA_PROTOINFO)?.nested(CTA_PROTOINFO_TCP)?.u8(CTA_PROTOINFO_TCP_STATE);
  return {
    family,
    ipProtocol,
    zone: bigEndian16(attributes, CTA_ZONE) ?? 0,
    id: bigEndian32(attributes, CTA_ID) ?? 0,
    original,
    reply,
    ...(mark === undefined ? {} : { mark }),
    ...(tcpState === undefined ? {} : { tcpState }),
  };
}

const CT_NEW = 0x100;
const CT_GET = 0x101;
const CT_DELETE = 0x102;

const CTA_TUPLE_ORIG = 1;
const CTA_TUPLE_REPLY = 2;
const CTA_PROTOINFO = 4;
const CTA_MARK = 8;
const CTA_ID = 12;
const CTA_ZONE = 18;
const CTA_COUNTERS_ORIG = 9;
const CTA_COUNTERS_REPLY = 10;
const CTA_COUNTERS_PACKETS = 1;
const CTA_COUNTERS_BYTES = 2;
const CTA_TIMESTAMP = 20;
const CTA_TIMESTAMP_START = 1;
const CTA_TIMESTAMP_STOP = 2;
const NANOSECONDS_PER_MS = 1e6;
const CTA_FILTER = 25;
/** The filter attribute is newer than the others, and is parsed strictly. */
const NLA_F_NESTED = 0x8000;
const CTA_TUPLE_IP = 1;
const CTA_TUPLE_PROTO = 2;
const ipTypes = { ipv4: { src: 1, dst: 2 }, ipv6: { src: 3, dst: 4 } } as const;
const CTA_PROTO_NUM = 1;
const CTA_PROTO_SRC_PORT = 2;
const CTA_PROTO_DST_PORT = 3;
const CTA_PROTOINFO_TCP = 1;
const CTA_PROTOINFO_TCP_STATE = 1;
const CTA_FILTER_ORIG_FLAGS = 1;
const CTA_FILTER_REPLY_FLAGS = 2;
/** `CTA_FILTER_F_*`: bits of net/netfilter/nf_conntrack_netlink.c. */
const FILTER_PROTO_NUM = 1 << 3;
const FILTER_PROTO_DST_PORT = 1 << 5;

/** `struct nfgenmsg`: u8 family · u8 version 0 · u16 resource 0 */
function nfgenmsg(batch: Batch, family: Family): void {
  batch.u8(familyNumber[family]).u8(0).u16(0);
}

function tupleIn(attributes: Attributes, family: Family): ConnectionTuple | undefined {
  const [ip, proto] = [attributes.nested(CTA_TUPLE_IP), attributes.nested(CTA_TUPLE_PROTO)];
  const [src, dst] = [ip?.bytes(ipTypes[family].src), ip?.bytes(ipTypes[family].dst)];
  const srcPort = proto && bigEndian16(proto, CTA_PROTO_SRC_PORT);
  const dstPort = proto && bigEndian16(proto, CTA_PROTO_DST_PORT);
  if (!src || !dst || srcPort === undefined || dstPort === undefined) return undefined;
  return { src: ipIn(src, family, 'connection'), dst: ipIn(dst, family, 'connection'), srcPort, dstPort };
}

/** Netfilter uses network byte order. */
function bigEndian16(attributes: Attributes, type: number): number | undefined {
  const value = attributes.bytes(type);
  return value && value.length >= 2 ? (value[0] ?? 0) * 256 + (value[1] ?? 0) : undefined;
}

function bigEndian32(attributes: Attributes, type: number): number | undefined {
  const value = attributes.bytes(type);
  return value && value.length >= 4 ? new DataView(value.buffer, value.byteOffset, 4).getUint32(0) : undefined;
}

function port(number: number): Uint8Array {
  return Uint8Array.of(number >>> 8, number & 0xff);
}

function countersIn(attributes: Attributes | undefined): { readonly packets: number; readonly bytes: number } | undefined {
  const [packets, bytes] = [
    attributes && bigEndian64(attributes, CTA_COUNTERS_PACKETS),
    attributes && bigEndian64(attributes, CTA_COUNTERS_BYTES),
  ];
  return packets === undefined || bytes === undefined ? undefined : { packets, bytes };
}

/** Counters and times are far below 2^63; as a double, a time loses less than a microsecond. */
function bigEndian64(attributes: Attributes, type: number): number | undefined {
  const value = attributes.bytes(type);
  return value && value.length >= 8 ? Number(new DataView(value.buffer, value.byteOffset, 8).getBigUint64(0)) : undefined;
}

/** Multicast group of connections that left the table. Source: linux/netfilter/nfnetlink.h `NFNLGRP_CONNTRACK_DESTROY`. */
const NFNLGRP_CONNTRACK_DESTROY = 3;

interface ConntrackEventsOptions {
  /** Network namespace; default: the caller's own. */
  readonly namespace?: NetworkNamespace;
}

/** Reads connections that end in the kernel's tracker, of all zones. After `overrun` an unknown number was lost. The handler must not throw. */
export class ConntrackEvents {
  readonly #events: EventSocket;

  private constructor(socket: NetlinkSocket, handler: (ended: EndedConnection | 'overrun') => void) {
    this.#events = new EventSocket(socket, (messages) => {
      if (messages === 'overrun') handler('overrun');
      else
        for (const message of messages) {
          const ended = decodeEnded(message);
          if (ended) handler(ended);
        }
    });
  }

  /** @throws SeineError `REFUSED` if the kernel has no such events */
  static open({ namespace }: ConntrackEventsOptions, handler: (ended: EndedConnection | 'overrun') => void): ConntrackEvents {
    const wanted = { protocol: 'netfilter', groups: [NFNLGRP_CONNTRACK_DESTROY], receiveQueueBytes } as const;
    return new ConntrackEvents(NetlinkSocket.open(namespace ? { ...wanted, namespace } : wanted), handler);
  }

  close(): void {
    this.#events.close();
  }
}
