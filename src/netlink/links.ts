import { SeineError } from '../base/errors/seine-error.ts';
import { type Mac, macToBytes } from '../base/net/mac.ts';
import { type IfIndex, interfaceName } from './interface-name.ts';
import { linkIn, macIn, optionalLinkIn } from './kernel-values.ts';
import { type Batch, flag, type NetlinkMessage, splitPayload } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import type { ListRequest, NetlinkSocket } from './socket.ts';
import { littleEndian } from './sys.ts';

/** Network interface of the kernel. Source: `struct ifinfomsg`, `IFLA_*` (linux/if_link.h). */
export interface Link {
  readonly index: IfIndex;
  readonly name: string;
  /** `veth`, `bridge`, `openvswitch`, …; a physical device and the loopback have none. */
  readonly kind: string | undefined;
  /** Undefined for interfaces without an Ethernet address (some tunnels). */
  readonly mac: Mac | undefined;
  readonly mtu: number;
  readonly state: 'up' | 'down';
  /** True if the other end exists and is up. A link that is down has no carrier. */
  readonly carrier: boolean;
  readonly arp: 'on' | 'off';
  readonly loopback: boolean;
  readonly master: IfIndex | undefined;
  readonly group: number;
  readonly alias: string | undefined;
  /** Other end of a veth, in namespace `peerNamespaceId` if that is another one than ours. */
  readonly peerIndex: IfIndex | undefined;
  /** Lower interface of a macvlan, in namespace `peerNamespaceId` if that is another one than ours. */
  readonly lowerIndex: IfIndex | undefined;
  /** Number of users that receive every frame of it: one on the lower interface of a passthru macvlan while that is up. */
  readonly promiscuity: number;
  readonly peerNamespaceId: number | undefined;
  /** Set for a tap: whether its frames carry offload metadata (`IFF_VNET_HDR`), as requested by the process that opened it last. */
  readonly vnetHeader: boolean | undefined;
}

/** Name or index. */
type LinkTarget = string | IfIndex;

/** Changes of a link; absent members are left unchanged. */
interface LinkChange {
  readonly state?: 'up' | 'down';
  readonly arp?: 'on' | 'off';
  readonly name?: string;
  readonly mac?: Mac | undefined;
  readonly mtu?: number | undefined;
  /** Free text that `ip link` shows; at most 255 bytes. Empty removes it. */
  readonly alias?: string;
  readonly master?: IfIndex | 'none';
  readonly group?: number;
  readonly namespace?: NetworkNamespace;
}

interface NewLink {
  readonly name: string;
  readonly mac?: Mac | undefined;
  readonly mtu?: number | undefined;
  readonly state?: 'up' | 'down';
}

/** The peer is created in its namespace, with its name and address; it is down, whatever the state of the near end. */
interface NewVeth extends NewLink {
  readonly peer: {
    readonly name: string;
    /** Default: the namespace of the near end. */
    readonly namespace?: NetworkNamespace;
    readonly mac?: Mac | undefined;
    readonly mtu?: number | undefined;
  };
}

/** Created in its namespace, down, with the MAC of the lower interface. */
interface NewMacvlan {
  readonly name: string;
  readonly mtu: number;
  readonly lower: IfIndex;
  readonly namespace: NetworkNamespace;
}

interface LinkStatistics {
  readonly receivedPackets: bigint;
  readonly sentPackets: bigint;
  readonly receivedBytes: bigint;
  readonly sentBytes: bigint;
  readonly receiveErrors: bigint;
  readonly sendErrors: bigint;
  readonly receiveDropped: bigint;
  readonly sendDropped: bigint;
}

/** Fails with `EEXIST` if the name is in use here or the peer's name is in use there. */
export function createVeth(batch: Batch, veth: NewVeth): void {
  const { peer } = veth;
  create(batch, 'veth', veth, () =>
    batch.nested(IFLA_INFO_DATA, () =>
      batch.nested(VETH_INFO_PEER, () => {
        ifinfomsg(batch, 0, 0, 0); // a peer that is created up fails with ENOTCONN
        newLinkAttributes(batch, peer);
        if (peer.namespace) batch.attributeU32(IFLA_NET_NS_FD, peer.namespace.fd);
      }),
    ),
  );
}

/**
 * Creates a macvlan that receives everything that arrives at `lower`, and is its only one. Fails with `EEXIST` if the name is in use in its
 * namespace, with `EINVAL` if `lower` already has one, in any namespace, and with `EOPNOTSUPP` if the kernel has no macvlan.
 */
export function createMacvlan(batch: Batch, { name, mtu, lower, namespace }: NewMacvlan): void {
  create(
    batch,
    'macvlan',
    { name, mtu },
    () => batch.nested(IFLA_INFO_DATA, () => batch.attributeU32(IFLA_MACVLAN_MODE, MACVLAN_MODE_PASSTHRU)),
    {
      lower,
      namespace,
    },
  );
}

export function createBridge(batch: Batch, link: NewLink): void {
  create(batch, 'bridge', link, () => {});
}

export function createDummy(batch: Batch, link: NewLink): void {
  create(batch, 'dummy', link, () => {});
}

/** Creates a WireGuard device, without key and peers. Fails with `EOPNOTSUPP` on a kernel that has no WireGuard. */
export function createWireGuardDevice(batch: Batch, link: NewLink): void {
  create(batch, 'wireguard', link, () => {});
}

/** A link is renamed by index only: with a name, the kernel takes `IFLA_IFNAME` as the one to look up. */
export function changeLink(batch: Batch, target: LinkTarget, change: LinkChange): void {
  if (typeof target === 'string' && change.name !== undefined) throw new SeineError('INVARIANT', `rename ${target} by its index`);
  batch.message(RTM_NEWLINK, 0, `change link ${target}`, () => {
    const mask = (change.state ? IFF_UP : 0) | (change.arp ? IFF_NOARP : 0);
    const flags = (change.state === 'up' ? IFF_UP : 0) | (change.arp === 'off' ? IFF_NOARP : 0);
    ifinfomsg(batch, typeof target === 'string' ? 0 : target, flags, mask);
    if (typeof target === 'string') batch.attributeText(IFLA_IFNAME, target);
    newLinkAttributes(batch, change);
    if (change.alias !== undefined) batch.attribute(IFLA_IFALIAS, Buffer.from(change.alias, 'utf8'));
    if (change.master !== undefined) batch.attributeU32(IFLA_MASTER, change.master === 'none' ? 0 : change.master);
    if (change.group !== undefined) batch.attributeU32(IFLA_GROUP, change.group);
    if (change.namespace) batch.attributeU32(IFLA_NET_NS_FD, change.namespace.fd);
  });
}

/** Fails with `ENODEV` if there is none. Takes the kernel 16 ms for a veth: prefer `LinkRemover` where other work waits. */
export function deleteLink(batch: Batch, target: LinkTarget): void {
  batch.message(RTM_DELLINK, 0, `delete link ${target}`, () => {
    ifinfomsg(batch, typeof target === 'string' ? 0 : target, 0, 0);
    if (typeof target === 'string') batch.attributeText(IFLA_IFNAME, target);
  });
}

/** Deletes all links of a group at once, in the time of one. */
export function deleteLinkGroup(batch: Batch, group: number): void {
  batch.message(RTM_DELLINK, 0, `delete link group ${group}`, () => {
    ifinfomsg(batch, 0, 0, 0);
    batch.attributeU32(IFLA_GROUP, group);
  });
}

export function getLink(socket: NetlinkSocket, target: LinkTarget): Link | undefined {
  return socket.get(RTM_GETLINK, `get link ${target}`, (batch) => linkRequest(batch, target), decodeLink);
}

/** Like `getLink`, off the main thread. */
export function getLinkOffThread(socket: NetlinkSocket, target: LinkTarget): Promise<Link | undefined> {
  return socket.getOffThread(RTM_GETLINK, `get link ${target}`, (batch) => linkRequest(batch, target), decodeLink);
}

interface LinkFilter {
  readonly kind?: string;
  readonly master?: IfIndex;
}

/** Lists links sorted by index. @param filter evaluated in the kernel */
export function listLinks(socket: NetlinkSocket, filter: LinkFilter = {}): Link[] {
  return socket.list(linkList(filter)).sort((a, b) => a.index - b.index);
}

/** Like `listLinks`, off the main thread, and not sorted. */
export function listLinksOffThread(socket: NetlinkSocket, filter: LinkFilter): Promise<Link[]> {
  return socket.listOffThread(linkList(filter));
}

function linkList({ kind, master }: LinkFilter): ListRequest<Link> {
  return {
    type: RTM_GETLINK,
    what: 'list links',
    body: (batch) => {
      ifinfomsg(batch, 0, 0, 0);
      batch.attributeU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
      if (master !== undefined) batch.attributeU32(IFLA_MASTER, master);
      if (kind !== undefined) batch.nested(IFLA_LINKINFO, () => batch.attributeText(IFLA_INFO_KIND, kind));
    },
    decode: (message) => (message.type === RTM_NEWLINK ? decodeLink(message) : undefined),
  };
}

export function linkStatistics(socket: NetlinkSocket, target: LinkTarget): LinkStatistics | undefined {
  return socket.get(RTM_GETLINK, `get link ${target}`, (batch) => linkToAskFor(batch, target), decodeStatistics);
}

/** Decodes an `RTM_NEWLINK` or `RTM_DELLINK`. @throws SeineError `PROTOCOL` */
export function decodeLink(message: NetlinkMessage): Link {
  const { head, attributes } = splitPayload(message.payload, IFINFOMSG_LENGTH, 'link');
  const flags = head.getUint32(8, littleEndian);
  const info = attributes.nested(IFLA_LINKINFO);
  const kind = info?.text(IFLA_INFO_KIND);
  return {
    index: linkIn(head.getInt32(4, littleEndian), 'link'),
    name: attributes.text(IFLA_IFNAME) ?? '',
    kind,
    mac: macIn(attributes.bytes(IFLA_ADDRESS)),
    mtu: attributes.u32(IFLA_MTU) ?? 0,
    state: (flags & IFF_UP) !== 0 ? 'up' : 'down',
    carrier: (flags & IFF_LOWER_UP) !== 0,
    arp: (flags & IFF_NOARP) !== 0 ? 'off' : 'on',
    loopback: (flags & IFF_LOOPBACK) !== 0,
    master: optionalLinkIn(attributes.u32(IFLA_MASTER), 'link'),
    group: attributes.u32(IFLA_GROUP) ?? 0,
    alias: attributes.text(IFLA_IFALIAS),
    peerIndex: kind === 'veth' ? optionalLinkIn(attributes.u32(IFLA_LINK), 'link') : undefined,
    lowerIndex: kind === 'macvlan' ? optionalLinkIn(attributes.u32(IFLA_LINK), 'link') : undefined,
    promiscuity: attributes.u32(IFLA_PROMISCUITY) ?? 0,
    peerNamespaceId: attributes.i32(IFLA_LINK_NETNSID),
    vnetHeader: kind === 'tun' ? isSet(info?.nested(IFLA_INFO_DATA)?.u8(IFLA_TUN_VNET_HDR)) : undefined,
  };
}

function isSet(value: number | undefined): boolean | undefined {
  return value === undefined ? undefined : value !== 0;
}

export const RTM_NEWLINK = 16;
export const RTM_DELLINK = 17;
const RTM_GETLINK = 18;

const IFLA_ADDRESS = 1;
const IFLA_IFNAME = 3;
const IFLA_MTU = 4;
const IFLA_LINK = 5;
const IFLA_MASTER = 10;
const IFLA_LINKINFO = 18;
const IFLA_IFALIAS = 20;
const IFLA_STATS64 = 23;
const IFLA_GROUP = 27;
const IFLA_NET_NS_FD = 28;
const IFLA_EXT_MASK = 29;
const IFLA_PROMISCUITY = 30;
const IFLA_LINK_NETNSID = 37;
const IFLA_INFO_KIND = 1;
const IFLA_INFO_DATA = 2;
const VETH_INFO_PEER = 1;
const IFLA_TUN_VNET_HDR = 5;
const IFLA_MACVLAN_MODE = 1;
const MACVLAN_MODE_PASSTHRU = 8;
const RTEXT_FILTER_SKIP_STATS = 8;

const IFF_UP = 0x1;
const IFF_LOOPBACK = 0x8;
const IFF_NOARP = 0x80;
const IFF_LOWER_UP = 0x1_0000;

/** `struct ifinfomsg`: u8 family · pad · u16 type · i32 index · u32 flags · u32 mask of the flags to change */
const IFINFOMSG_LENGTH = 16;

function ifinfomsg(batch: Batch, index: number, flags: number, mask: number): void {
  batch.u32(0).u32(index).u32(flags).u32(mask);
}

/** @param born namespace and lower interface of the new link */
function create(batch: Batch, kind: string, link: NewLink, kindData: () => void, born?: Pick<NewMacvlan, 'lower' | 'namespace'>): void {
  batch.message(RTM_NEWLINK, flag.create | flag.exclusive, `create ${kind} ${link.name}`, () => {
    ifinfomsg(batch, 0, link.state === 'up' ? IFF_UP : 0, link.state === 'up' ? IFF_UP : 0);
    newLinkAttributes(batch, link);
    if (born) batch.attributeU32(IFLA_LINK, born.lower).attributeU32(IFLA_NET_NS_FD, born.namespace.fd);
    batch.nested(IFLA_LINKINFO, () => {
      batch.attributeText(IFLA_INFO_KIND, kind);
      kindData();
    });
  });
}

function newLinkAttributes(
  batch: Batch,
  { name, mac, mtu }: { readonly name?: string | undefined; readonly mac?: Mac | undefined; readonly mtu?: number | undefined },
): void {
  if (name !== undefined) batch.attributeText(IFLA_IFNAME, interfaceName(name));
  if (mtu !== undefined) batch.attributeU32(IFLA_MTU, mtu);
  if (mac !== undefined) batch.attribute(IFLA_ADDRESS, macToBytes(mac));
}

function linkToAskFor(batch: Batch, target: LinkTarget): void {
  ifinfomsg(batch, typeof target === 'string' ? 0 : target, 0, 0);
  if (typeof target === 'string') batch.attributeText(IFLA_IFNAME, target);
}

/** Excludes its counters, among them those of IPv6, which the kernel adds up over all CPUs. */
function linkRequest(batch: Batch, target: LinkTarget): void {
  linkToAskFor(batch, target);
  batch.attributeU32(IFLA_EXT_MASK, RTEXT_FILTER_SKIP_STATS);
}

/** Decodes the first eight counters of `struct rtnl_link_stats64`. */
function decodeStatistics(message: NetlinkMessage): LinkStatistics {
  const { attributes } = splitPayload(message.payload, IFINFOMSG_LENGTH, 'link');
  const bytes = attributes.bytes(IFLA_STATS64) ?? new Uint8Array(64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const counter = (index: number) => view.getBigUint64(index * 8, littleEndian);
  return {
    receivedPackets: counter(0),
    sentPackets: counter(1),
    receivedBytes: counter(2),
    sentBytes: counter(3),
    receiveErrors: counter(4),
    sendErrors: counter(5),
    receiveDropped: counter(6),
    sendDropped: counter(7),
  };
}
