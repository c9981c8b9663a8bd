import { SeineError } from '../../base/errors/seine-error.ts';
import { addressBits, type Cidr, type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import { Attributes, aligned } from '../attributes.ts';
import { errnoOf } from '../errno.ts';
import type { IfIndex } from '../interface-name.ts';
import { familyNumber, familyOf, ipIn, networkIn, optionalLinkIn } from '../kernel-values.ts';
import { type Batch, flag, type NetlinkMessage, splitPayload } from '../message.ts';
import type { ListRequest, NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';

/** Seine's number in `rtm_protocol` and `NDA_PROTOCOL`: only entries with it may be removed. */
export const ourProtocol = 0x5e;
export const mainTable = 254;
/** The kernel's own table, with a route for each address. */
export const localTable = 255;

/** Source: `RTN_*` of linux/rtnetlink.h. */
const kindNumbers = {
  unicast: 1,
  local: 2,
  broadcast: 3,
  anycast: 4,
  multicast: 5,
  blackhole: 6,
  unreachable: 7,
  prohibit: 8,
  throw: 9,
} as const;
type RouteKind = keyof typeof kindNumbers;

interface NextHop {
  readonly link: IfIndex | undefined;
  readonly gateway: Ip | undefined;
  readonly weight: number;
}

/** Route of the kernel. Source: `struct rtmsg`, `RTA_*`. */
export interface Route {
  readonly destination: Cidr;
  readonly kind: RouteKind | number;
  readonly gateway: Ip | undefined;
  readonly link: IfIndex | undefined;
  /** Preferred source address. */
  readonly source: Ip | undefined;
  readonly mtu: number | undefined;
  /** 0 for IPv4 without one; IPv6 shows 1024 if none was given. */
  readonly metric: number;
  readonly table: number;
  readonly protocol: number;
  readonly scope: number;
  /** The gateway is on the link although it is in no network of the link. */
  readonly onLink: boolean;
  /** Next hops of a multipath route; `gateway` and `link` are then undefined. */
  readonly nextHops: readonly NextHop[];
  /** `RTA_*` outside this model: a route with one is not Seine's. */
  readonly unmodelled: readonly number[];
}

export interface NewRoute {
  readonly destination: Cidr;
  readonly kind?: RouteKind;
  readonly gateway?: Ip | undefined;
  readonly link?: IfIndex | undefined;
  readonly source?: Ip | undefined;
  readonly mtu?: number | undefined;
  readonly metric?: number | undefined;
  /** Default: `mainTable`. */
  readonly table?: number;
  /** Default: `ourProtocol`. */
  readonly protocol?: number;
  /**
   * The gateway need not be in a network of the link. In a namespace where no interface has an IPv4 address, not even the
   * loopback, the kernel refuses this with "Nexthop has invalid gateway".
   */
  readonly onLink?: boolean;
}

/** Identity of a route; the rest may be left out of a delete. */
type RouteKey = Pick<NewRoute, 'destination' | 'metric' | 'table' | 'kind' | 'gateway' | 'link' | 'protocol'>;

/** Fails with `EEXIST` if there is one with this destination, metric and table. */
export function addRoute(batch: Batch, route: NewRoute): void {
  batch.message(RTM_NEWROUTE, flag.create | flag.exclusive, `add route to ${route.destination.text}`, () => routeTo(batch, route));
}

/** Sets the route of this destination, metric and table; the first of them, if others were appended. */
export function replaceRoute(batch: Batch, route: NewRoute): void {
  batch.message(RTM_NEWROUTE, flag.create | flag.replace, `set route to ${route.destination.text}`, () => routeTo(batch, route));
}

/** Fails with `ESRCH` if there is none. Only a route with all the given attributes is deleted. */
export function deleteRoute(batch: Batch, key: RouteKey): void {
  batch.message(RTM_DELROUTE, 0, `delete route to ${key.destination.text}`, () => {
    rtmsg(batch, key, { protocol: key.protocol ?? 0, scope: RT_SCOPE_NOWHERE, kind: key.kind ? kindNumbers[key.kind] : 0, flags: 0 });
    keyAttributes(batch, key);
  });
}

interface RouteFilter {
  readonly family: Family;
  readonly table?: number;
  readonly protocol?: number;
  readonly link?: IfIndex;
}

/** Lists routes without the kernel's cache. @param filter evaluated in the kernel; an absent table has no routes */
export function listRoutes(socket: NetlinkSocket, filter: RouteFilter): Route[] {
  try {
    return socket.list(routeList(filter));
  } catch (error) {
    return orNone(error);
  }
}

/** Like `listRoutes`, off the main thread. */
export async function listRoutesOffThread(socket: NetlinkSocket, filter: RouteFilter): Promise<Route[]> {
  return await socket.listOffThread(routeList(filter)).catch(orNone);
}

function routeList({ family, protocol = 0, table, link }: RouteFilter): ListRequest<Route> {
  return {
    type: RTM_GETROUTE,
    what: `list ${family} routes`,
    body: (batch) => {
      batch.u8(familyNumber[family]).u8(0).u8(0).u8(0).u8(0).u8(protocol).u8(0).u8(0).u32(0);
      if (table !== undefined) batch.attributeU32(RTA_TABLE, table);
      if (link !== undefined) batch.attributeU32(RTA_OIF, link);
    },
    decode: (message) => (message.type === RTM_NEWROUTE ? decodeRoute(message) : undefined),
  };
}

function orNone(error: unknown): Route[] {
  if (errnoOf(error) === 'ENOENT') return [];
  throw error;
}

/** Returns the route of a packet to `destination`. Undefined if there is none. @param mark of the packet; default: none */
export function lookUpRoute(socket: NetlinkSocket, destination: Ip, mark?: number): Route | undefined {
  const request = (batch: Batch): void => lookUpRequest(batch, destination, mark);
  try {
    return socket.get(RTM_GETROUTE, `look up the route to ${destination.text}`, request, decodeRoute);
  } catch (error) {
    if (['ENETUNREACH', 'EHOSTUNREACH'].includes(errnoOf(error) ?? '')) return undefined;
    throw error;
  }
}

/** Decodes an `RTM_NEWROUTE` or `RTM_DELROUTE`; undefined for other families. @throws SeineError `PROTOCOL` */
export function decodeRoute(message: NetlinkMessage): Route | undefined {
  const { head, attributes } = splitPayload(message.payload, RTMSG_LENGTH, 'route');
  const family = familyOf(head.getUint8(0));
  if (family === undefined) return undefined;
  const metrics = attributes.nested(RTA_METRICS);
  const kind = head.getUint8(7);
  return {
    destination: networkIn(attributes.bytes(RTA_DST), head.getUint8(1), family, 'route'),
    kind: kindNames.get(kind) ?? kind,
    gateway: optionalIp(attributes.bytes(RTA_GATEWAY), family),
    link: optionalLinkIn(attributes.u32(RTA_OIF), 'route'),
    source: optionalIp(attributes.bytes(RTA_PREFSRC), family),
    mtu: metrics?.u32(RTAX_MTU),
    metric: attributes.u32(RTA_PRIORITY) ?? 0,
    table: attributes.u32(RTA_TABLE) ?? head.getUint8(4),
    protocol: head.getUint8(5),
    scope: head.getUint8(6),
    onLink: (head.getUint32(8, littleEndian) & RTNH_F_ONLINK) !== 0,
    nextHops: nextHopsIn(attributes.bytes(RTA_MULTIPATH), family),
    unmodelled: attributes.types.filter(
      (type) => !modelled.has(type) || (type === RTA_METRICS && metrics?.types.some((m) => m !== RTAX_MTU)),
    ),
  };
}

export const RTM_NEWROUTE = 24;
export const RTM_DELROUTE = 25;
const RTM_GETROUTE = 26;
const RTMSG_LENGTH = 12;

const RTA_DST = 1;
const RTA_OIF = 4;
const RTA_GATEWAY = 5;
const RTA_PRIORITY = 6;
const RTA_PREFSRC = 7;
const RTA_METRICS = 8;
const RTA_MULTIPATH = 9;
const RTA_CACHEINFO = 12;
const RTA_TABLE = 15;
const RTA_MARK = 16;
const RTA_PREF = 20;
const RTA_UID = 25;
const RTAX_MTU = 2;
const RTNH_F_ONLINK = 4;
const RT_SCOPE_UNIVERSE = 0;
const RT_SCOPE_LINK = 253;
const RT_SCOPE_HOST = 254;
const RT_SCOPE_NOWHERE = 255;

/** The last three do not affect forwarding. */
const modelled = new Set([
  RTA_DST,
  RTA_OIF,
  RTA_GATEWAY,
  RTA_PRIORITY,
  RTA_PREFSRC,
  RTA_METRICS,
  RTA_MULTIPATH,
  RTA_TABLE,
  RTA_CACHEINFO,
  RTA_PREF,
  RTA_UID,
]);

const kindNames = new Map(Object.entries(kindNumbers).map(([name, number]) => [number as number, name as RouteKind]));

function lookUpRequest(batch: Batch, destination: Ip, mark: number | undefined): void {
  batch.u8(familyNumber[destination.family]).u8(addressBits(destination.family)).u8(0).u8(0).u32(0).u32(0);
  batch.attribute(RTA_DST, ipToBytes(destination));
  if (mark !== undefined) batch.attributeU32(RTA_MARK, mark);
}

interface RtmsgFields {
  readonly protocol: number;
  readonly scope: number;
  readonly kind: number;
  readonly flags: number;
}

/** `struct rtmsg`: u8 family · destination length · source length · TOS · table · protocol · scope · type, u32 flags */
function rtmsg(batch: Batch, { destination, table = mainTable }: RouteKey, { protocol, scope, kind, flags }: RtmsgFields): void {
  batch.u8(familyNumber[destination.family]).u8(destination.prefixLength).u8(0).u8(0);
  batch
    .u8(table > 255 ? 0 : table)
    .u8(protocol)
    .u8(scope)
    .u8(kind)
    .u32(flags);
}

function routeTo(batch: Batch, route: NewRoute): void {
  const { kind = 'unicast', protocol = ourProtocol, onLink = false } = route;
  rtmsg(batch, route, { protocol, scope: scopeOf(route), kind: kindNumbers[kind], flags: onLink ? RTNH_F_ONLINK : 0 });
  keyAttributes(batch, route);
  if (route.source) batch.attribute(RTA_PREFSRC, ipToBytes(route.source));
  const { mtu } = route;
  if (mtu !== undefined) batch.nested(RTA_METRICS, () => batch.attributeU32(RTAX_MTU, mtu));
}

function keyAttributes(batch: Batch, { destination, metric, table = mainTable, gateway, link }: RouteKey): void {
  if (destination.prefixLength > 0) batch.attribute(RTA_DST, ipToBytes(destination.network));
  if (gateway) batch.attribute(RTA_GATEWAY, ipToBytes(gateway));
  if (link !== undefined) batch.attributeU32(RTA_OIF, link);
  if (metric !== undefined) batch.attributeU32(RTA_PRIORITY, metric);
  if (table > 255) batch.attributeU32(RTA_TABLE, table);
}

/** IPv4 requires the scope of the next hop to be wider than the route's; IPv6 has none. */
function scopeOf({ destination, kind = 'unicast', gateway }: NewRoute): number {
  if (destination.family === 'ipv6') return RT_SCOPE_UNIVERSE;
  if (kind === 'local') return RT_SCOPE_HOST;
  return kind === 'unicast' && !gateway ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE;
}

function optionalIp(bytes: Uint8Array | undefined, family: Family): Ip | undefined {
  return bytes && ipIn(bytes, family, 'route');
}

/** A list of `struct rtnexthop`: u16 length · u8 flags · u8 weight − 1 · i32 index · attributes */
function nextHopsIn(bytes: Uint8Array | undefined, family: Family): NextHop[] {
  const hops: NextHop[] = [];
  if (bytes === undefined) return hops;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at + 8 <= bytes.length; ) {
    const length = view.getUint16(at, littleEndian);
    if (length < 8 || at + length > bytes.length) throw new SeineError('PROTOCOL', `route: next hop at ${at} declares ${length} bytes`);
    const attributes = new Attributes(bytes.subarray(at + 8, at + length), 'next hop');
    hops.push({
      link: optionalLinkIn(view.getInt32(at + 4, littleEndian), 'next hop'),
      gateway: optionalIp(attributes.bytes(RTA_GATEWAY), family),
      weight: view.getUint8(at + 3) + 1,
    });
    at += aligned(length);
  }
  return hops;
}
