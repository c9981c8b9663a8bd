import { type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import { type Mac, macToBytes } from '../../base/net/mac.ts';
import type { IfIndex } from '../interface-name.ts';
import { familyNumber, familyOf, ipIn, linkIn, macIn } from '../kernel-values.ts';
import { type Batch, flag, type NetlinkMessage, splitPayload } from '../message.ts';
import type { ListRequest, NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';
import { ourProtocol } from './routes.ts';

/** Source: `NUD_*` of linux/neighbour.h. */
const stateNumbers = {
  none: 0,
  incomplete: 1,
  reachable: 2,
  stale: 4,
  delay: 8,
  probe: 0x10,
  failed: 0x20,
  noArp: 0x40,
  permanent: 0x80,
} as const;
type NeighbourState = keyof typeof stateNumbers;

/** Entry of the ARP or ND table. Source: `struct ndmsg`, `NDA_*`. */
export interface Neighbour {
  readonly link: IfIndex;
  readonly address: Ip;
  /** Undefined while it is being resolved, and after that failed. */
  readonly mac: Mac | undefined;
  readonly state: NeighbourState | number;
  /** `NDA_PROTOCOL`: the program that created it; 0 if unknown. */
  readonly protocol: number;
}

interface NewNeighbour {
  readonly link: IfIndex;
  readonly address: Ip;
  readonly mac: Mac;
  /** Default: `permanent`: never resolved, never aged. */
  readonly state?: 'permanent' | 'noArp' | 'reachable' | 'stale';
}

/**
 * Sets an entry, whether it exists or not, and marks it as Seine's.
 *
 * The kernel stores at most `net.ipv4.neigh.default.gc_thresh3` (1,024) entries; permanent ones do not count.
 */
export function replaceNeighbour(batch: Batch, neighbour: NewNeighbour): void {
  const { link, address, mac, state = 'permanent' } = neighbour;
  batch.message(RTM_NEWNEIGH, flag.create | flag.replace, `set neighbour ${address.text} of ${link}`, () => {
    ndmsg(batch, link, address.family, stateNumbers[state]);
    batch.attribute(NDA_DST, ipToBytes(address)).attribute(NDA_LLADDR, macToBytes(mac)).attributeU8(NDA_PROTOCOL, ourProtocol);
  });
}

/** Fails with `ENOENT` if it does not exist. */
export function deleteNeighbour(batch: Batch, { link, address }: Pick<NewNeighbour, 'link' | 'address'>): void {
  batch.message(RTM_DELNEIGH, 0, `delete neighbour ${address.text} of ${link}`, () => {
    ndmsg(batch, link, address.family, 0);
    batch.attribute(NDA_DST, ipToBytes(address));
  });
}

/** Makes the kernel resolve a known neighbour's Ethernet address again. Fails with `ENOENT` or `EINVAL` if it is unknown. */
export function verifyNeighbour(batch: Batch, { link, address }: Pick<NewNeighbour, 'link' | 'address'>): void {
  batch.message(RTM_NEWNEIGH, 0, `verify neighbour ${address.text} of ${link}`, () => {
    ndmsg(batch, link, address.family, stateNumbers.probe);
    batch.attribute(NDA_DST, ipToBytes(address));
  });
}

/** Makes the kernel resolve an unknown neighbour on the link, as a packet to it would. */
export function resolveNeighbour(batch: Batch, { link, address }: Pick<NewNeighbour, 'link' | 'address'>): void {
  batch.message(RTM_NEWNEIGH, flag.create, `resolve neighbour ${address.text} of ${link}`, () => {
    ndmsg(batch, link, address.family, stateNumbers.none, NTF_USE);
    batch.attribute(NDA_DST, ipToBytes(address));
  });
}

interface NeighbourFilter {
  readonly family: Family;
  readonly link?: IfIndex;
}

/** Lists neighbours without proxy entries. @param filter evaluated in the kernel */
export function listNeighbours(socket: NetlinkSocket, filter: NeighbourFilter): Neighbour[] {
  return socket.list(neighbourList(filter));
}

/** Like `listNeighbours`, off the main thread. */
export function listNeighboursOffThread(socket: NetlinkSocket, filter: NeighbourFilter): Promise<Neighbour[]> {
  return socket.listOffThread(neighbourList(filter));
}

/** Returns the entry of an address; undefined if there is none. Linux 5.0 */
export function getNeighbour(socket: NetlinkSocket, { link, address }: Pick<NewNeighbour, 'link' | 'address'>): Neighbour | undefined {
  const request = (batch: Batch): void => {
    ndmsg(batch, link, address.family, 0);
    batch.attribute(NDA_DST, ipToBytes(address));
  };
  return socket.get(RTM_GETNEIGH, `read neighbour ${address.text} of ${link}`, request, decodeNeighbour);
}

function neighbourList({ family, link }: NeighbourFilter): ListRequest<Neighbour> {
  return {
    type: RTM_GETNEIGH,
    what: `list ${family} neighbours`,
    body: (batch) => {
      ndmsg(batch, 0, family, 0);
      if (link !== undefined) batch.attributeU32(NDA_IFINDEX, link);
    },
    decode: (message) => (message.type === RTM_NEWNEIGH ? decodeNeighbour(message) : undefined),
  };
}

/** Decodes an `RTM_NEWNEIGH` or `RTM_DELNEIGH`; undefined for bridge entries. @throws SeineError `PROTOCOL` */
export function decodeNeighbour(message: NetlinkMessage): Neighbour | undefined {
  const { head, attributes } = splitPayload(message.payload, 12, 'neighbour');
  const family = familyOf(head.getUint8(0));
  const address = attributes.bytes(NDA_DST);
  if (family === undefined || address === undefined) return undefined;
  const state = head.getUint16(8, littleEndian);
  return {
    link: linkIn(head.getInt32(4, littleEndian), 'neighbour'),
    address: ipIn(address, family, 'neighbour'),
    mac: macIn(attributes.bytes(NDA_LLADDR)),
    state: stateNames.get(state) ?? state,
    protocol: attributes.u8(NDA_PROTOCOL) ?? 0,
  };
}

export const RTM_NEWNEIGH = 28;
export const RTM_DELNEIGH = 29;
const RTM_GETNEIGH = 30;
const NDA_DST = 1;
const NDA_LLADDR = 2;
const NDA_IFINDEX = 8;
const NDA_PROTOCOL = 12;
/** `ndm_flags`: as if a packet were sent to the neighbour. */
const NTF_USE = 1;

const stateNames = new Map(Object.entries(stateNumbers).map(([name, number]) => [number as number, name as NeighbourState]));

/** `struct ndmsg`: u8 family · 3 zeros · i32 index · u16 state · u8 flags · u8 type */
function ndmsg(batch: Batch, link: number, family: Family, state: number, flags = 0): void {
  batch.u8(familyNumber[family]).u8(0).u16(0).u32(link).u16(state).u8(flags).u8(0);
}
