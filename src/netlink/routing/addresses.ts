import { type Family, type Ip, ipToBytes } from '../../base/net/ip.ts';
import type { IfIndex } from '../interface-name.ts';
import { familyNumber, familyOf, ipIn, linkIn } from '../kernel-values.ts';
import { type Batch, flag, type NetlinkMessage, splitPayload } from '../message.ts';
import type { ListRequest, NetlinkSocket } from '../socket.ts';
import { littleEndian } from '../sys.ts';

/** Address of an interface. Source: `struct ifaddrmsg`, `IFA_*` (linux/if_addr.h). */
export interface Address {
  readonly link: IfIndex;
  readonly address: Ip;
  readonly prefixLength: number;
  readonly scope: 'global' | 'site' | 'link' | 'host' | number;
  /** Duplicate address detection of IPv6: a tentative address cannot be used yet, a failed one never. */
  readonly duplicateDetection: 'done' | 'tentative' | 'failed';
  /** `noPrefixRoute`: it has no route to the whole network. */
  readonly prefixRoute: 'prefixRoute' | 'noPrefixRoute';
  /** False if it expires: router advertisements, DHCP. */
  readonly permanent: boolean;
}

interface NewAddress {
  readonly link: IfIndex;
  readonly address: Ip;
  readonly prefixLength: number;
  /** Default: `skip`, so the address can be used at once. Not for IPv4. */
  readonly duplicateDetection?: 'skip' | 'wait';
  readonly prefixRoute?: 'prefixRoute' | 'noPrefixRoute';
}

/** Sets an address, whether it exists or not. */
export function replaceAddress(batch: Batch, address: NewAddress): void {
  const { link, prefixLength, duplicateDetection = 'skip', prefixRoute = 'prefixRoute' } = address;
  batch.message(RTM_NEWADDR, flag.create | flag.replace, `set address ${address.address.text}/${prefixLength} of ${link}`, () => {
    addressTo(batch, address);
    batch.attributeU32(
      IFA_FLAGS,
      (duplicateDetection === 'skip' ? IFA_F_NODAD : 0) | (prefixRoute === 'noPrefixRoute' ? IFA_F_NOPREFIXROUTE : 0),
    );
  });
}

/** Fails with `EADDRNOTAVAIL` if it does not exist. */
export function deleteAddress(batch: Batch, address: Pick<NewAddress, 'link' | 'address' | 'prefixLength'>): void {
  const what = `delete address ${address.address.text}/${address.prefixLength} of ${address.link}`;
  batch.message(RTM_DELADDR, 0, what, () => addressTo(batch, address));
}

interface AddressFilter {
  readonly link?: IfIndex;
  readonly family?: Family;
}

/** Lists addresses in the kernel's order: of one interface, IPv4 first, and a primary address before its secondaries. */
export function listAddresses(socket: NetlinkSocket, filter: AddressFilter = {}): Address[] {
  return familiesOf(filter).flatMap((family) => socket.list(addressList(family, filter)));
}

/** Like `listAddresses`, off the main thread. */
export async function listAddressesOffThread(socket: NetlinkSocket, filter: AddressFilter): Promise<Address[]> {
  const found: Address[] = [];
  for (const family of familiesOf(filter)) found.push(...(await socket.listOffThread(addressList(family, filter))));
  return found;
}

function familiesOf({ family }: AddressFilter): readonly Family[] {
  return family ? [family] : ['ipv4', 'ipv6'];
}

function addressList(family: Family, { link = 0 }: { readonly link?: number }): ListRequest<Address> {
  return {
    type: RTM_GETADDR,
    what: 'list addresses',
    body: (batch) => batch.u8(familyNumber[family]).u8(0).u8(0).u8(0).u32(link),
    decode: (message) => (message.type === RTM_NEWADDR ? decodeAddress(message) : undefined),
  };
}

/** Decodes an `RTM_NEWADDR` or `RTM_DELADDR`; undefined for other families. @throws SeineError `PROTOCOL` */
export function decodeAddress(message: NetlinkMessage): Address | undefined {
  const { head, attributes } = splitPayload(message.payload, 8, 'address');
  const family = familyOf(head.getUint8(0));
  // On a point-to-point IPv4 link, IFA_ADDRESS is the other end and IFA_LOCAL is ours.
  const bytes = attributes.bytes(IFA_LOCAL) ?? attributes.bytes(IFA_ADDRESS);
  if (family === undefined || bytes === undefined) return undefined;
  const flags = attributes.u32(IFA_FLAGS) ?? head.getUint8(2);
  const scope = head.getUint8(3);
  return {
    link: linkIn(head.getUint32(4, littleEndian), 'address'),
    address: ipIn(bytes, family, 'address'),
    prefixLength: head.getUint8(1),
    scope: scopeNames.get(scope) ?? scope,
    duplicateDetection: (flags & IFA_F_DADFAILED) !== 0 ? 'failed' : (flags & IFA_F_TENTATIVE) !== 0 ? 'tentative' : 'done',
    prefixRoute: (flags & IFA_F_NOPREFIXROUTE) !== 0 ? 'noPrefixRoute' : 'prefixRoute',
    permanent: (flags & IFA_F_PERMANENT) !== 0,
  };
}

export const RTM_NEWADDR = 20;
export const RTM_DELADDR = 21;
const RTM_GETADDR = 22;
const IFA_ADDRESS = 1;
const IFA_LOCAL = 2;
const IFA_FLAGS = 8;
const IFA_F_NODAD = 0x2;
const IFA_F_DADFAILED = 0x8;
const IFA_F_TENTATIVE = 0x40;
const IFA_F_PERMANENT = 0x80;
const IFA_F_NOPREFIXROUTE = 0x200;
const scopeNames = new Map<number, 'global' | 'site' | 'link' | 'host'>([
  [0, 'global'],
  [200, 'site'],
  [253, 'link'],
  [254, 'host'],
]);

/** `struct ifaddrmsg`: u8 family · u8 prefix length · u8 flags · u8 scope · u32 index */
function addressTo(batch: Batch, { link, address, prefixLength }: Pick<NewAddress, 'link' | 'address' | 'prefixLength'>): void {
  const linkLocal = address.family === 'ipv6' && address.value >> 118n === 0x3fan; // fe80::/10
  batch
    .u8(familyNumber[address.family])
    .u8(prefixLength)
    .u8(0)
    .u8(linkLocal ? 253 : 0)
    .u32(link);
  const bytes = ipToBytes(address);
  batch.attribute(IFA_LOCAL, bytes).attribute(IFA_ADDRESS, bytes);
}
