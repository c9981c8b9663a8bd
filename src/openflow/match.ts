import { SeineError } from '../errors/seine-error.ts';
import { ByteReader, ByteWriter } from '../wire/bytes.ts';
import { type Field, type FieldName, type FieldValue, fieldNamed, type Prerequisite } from './fields.ts';
import { type AnyValue, type Masked, readOxm, requireField, writeOxm } from './oxm.ts';

/**
 * What a flow looks at: each field at most once, as an exact value or as `{ value, mask }`. `{}` matches every packet.
 *
 * Registers may be given as `reg*`, `xreg*` or `xxreg*` as long as no bit is given twice.
 */
export type Match = { readonly [F in FieldName]?: FieldValue<F> | Masked<FieldValue<F>> } & {
  /** OXM TLVs that this build has no row for, in wire form; they are written last. */
  readonly unknown?: Uint8Array;
};

const OXM_MATCH = 1;
const VLAN_PRESENT_AND_VID = 0x1fff;

const scratch = new ByteWriter(512);

/**
 * The match as `ofp_match` in OpenFlow 1.5: header and padding included, fields in the order and form in which Open vSwitch
 * dumps them. Two matches mean the same exactly if their bytes are equal.
 *
 * Source: OpenFlow 1.5.1 `ofp_match` (u16 type = 1, u16 length without padding, OXM TLVs, zeros to a multiple of 8).
 *
 * @throws SeineError `INVARIANT` if a value does not fit its field, or a field lacks its prerequisite.
 */
export function encodeMatch(match: Match): Uint8Array {
  writeMatch(scratch.truncate(0), match);
  return scratch.finish();
}

export function writeMatch(w: ByteWriter, match: Match): void {
  const start = w.length;
  w.u16(OXM_MATCH).u16(0);
  writeOxmFields(w, match);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** The TLVs alone, without header and padding: also what packet-in metadata and packet-out carry. */
export function writeOxmFields(w: ByteWriter, match: Match): void {
  const queue: Field[] = [];
  let registers: RegisterFile | undefined;
  const plain = match.vlan_tci === undefined ? match : withoutVlanTci(match);
  for (const name in plain) {
    const given = plain[name as keyof Match];
    if (given === undefined || name === 'unknown') continue;
    const field = requireField(name);
    if (field.needs !== 'none') requirePrerequisite(field, plain);
    if (isRegister(field)) (registers ??= new RegisterFile()).add(field, given);
    else insertByOrder(queue, field);
  }
  writeInOrder(w, queue, plain, registers);
}

const registerOrder = requireField('reg0').order;

function writeInOrder(w: ByteWriter, queue: readonly Field[], match: Match, registers: RegisterFile | undefined): void {
  let pending = registers;
  for (const field of queue) {
    if (pending !== undefined && field.order > registerOrder) {
      pending.write(w);
      pending = undefined;
    }
    writeGiven(w, field, match[field.name]);
  }
  pending?.write(w);
  if (match.unknown !== undefined) w.raw(match.unknown);
}

function writeGiven(w: ByteWriter, field: Field, given: AnyValue | Masked<AnyValue> | undefined): void {
  if (given === undefined) return;
  if (isMasked(given)) writeOxm(w, field, given.value, given.mask);
  // Open vSwitch dumps the one public tunnel flag with its mask even if all of it counts.
  else writeOxm(w, field, given, field.format === 'tunnelFlags' ? field.fullNumber : undefined);
}

export function isMasked<V extends AnyValue>(given: V | Masked<V>): given is Masked<V> {
  return typeof given === 'object' && 'mask' in given;
}

function insertByOrder(queue: Field[], field: Field): void {
  let at = queue.length;
  queue.push(field);
  for (let before = queue[at - 1]; before !== undefined && before.order > field.order; before = queue[--at - 1]) queue[at] = before;
  queue[at] = field;
}

function isRegister(field: Field): boolean {
  return field.order >= registerOrder && field.order < registerOrder + 28;
}

/**
 * Registers as OpenFlow 1.5 carries them: in pairs, each pair one 64-bit packet register (`xreg0` is `reg0` above `reg1`),
 * however they were given.
 */
class RegisterFile {
  readonly #values = new Uint32Array(16);
  readonly #masks = new Uint32Array(16);

  add(field: Field, given: AnyValue | Masked<AnyValue>): void {
    const value = isMasked(given) ? given.value : given;
    const mask = isMasked(given) ? given.mask : undefined;
    const words = field.bytes / 4;
    const first = Number(/\d+$/.exec(field.name)?.[0]) * words;
    if (typeof value === 'number') this.#set(field, first, value, typeof mask === 'number' ? mask : 0xffff_ffff);
    else if (typeof value === 'bigint') this.#addWide(field, first, value, typeof mask === 'bigint' ? mask : field.fullBigint);
  }

  write(w: ByteWriter): void {
    for (let pair = 0; pair < 8; pair++) {
      const [highMask = 0, lowMask = 0] = this.#masks.subarray(2 * pair, 2 * pair + 2);
      if (highMask === 0 && lowMask === 0) continue;
      const [high = 0, low = 0] = this.#values.subarray(2 * pair, 2 * pair + 2);
      const exact = highMask === 0xffff_ffff && lowMask === 0xffff_ffff;
      w.u32((exact ? 0x8001_0008 : 0x8001_0110) + pair * 0x200)
        .u32(high)
        .u32(low);
      if (!exact) w.u32(highMask).u32(lowMask);
    }
  }

  #addWide(field: Field, first: number, value: bigint, mask: bigint): void {
    const words = field.bytes / 4;
    for (let word = 0; word < words; word++) {
      const shift = BigInt(32 * (words - 1 - word));
      this.#set(field, first + word, Number((value >> shift) & 0xffff_ffffn), Number((mask >> shift) & 0xffff_ffffn));
    }
  }

  #set(field: Field, word: number, value: number, mask: number): void {
    if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff || !Number.isInteger(mask) || mask < 0 || mask > 0xffff_ffff) {
      throw new SeineError('INVARIANT', `${field.name}: ${value}/${mask} does not fit in 32 bits`);
    }
    if (((this.#masks[word] ?? 0) & mask) !== 0)
      throw new SeineError('INVARIANT', `${field.name} matches bits that another register field matches`);
    this.#masks[word] = (this.#masks[word] ?? 0) | mask;
    this.#values[word] = (this.#values[word] ?? 0) | (value & mask);
  }
}

/** Bits 0 to 12 are `vlan_vid` with the presence bit; the priority counts only where all three bits are matched, as in OVS. */
function withoutVlanTci(match: Match): Match {
  const { vlan_tci: tci = 0, ...rest } = match;
  if (rest.vlan_vid !== undefined || rest.vlan_pcp !== undefined) throw new SeineError('INVARIANT', 'vlan_tci and vlan_vid or vlan_pcp');
  const value = isMasked(tci) ? tci.value : tci;
  const mask = isMasked(tci) ? tci.mask : 0xffff;
  const vid = { value: value & VLAN_PRESENT_AND_VID, mask: mask & VLAN_PRESENT_AND_VID };
  const hasPriority = mask >>> 13 === 7 && (value & VLAN_PRESENT_AND_VID) !== 0;
  return hasPriority ? { ...rest, vlan_vid: vid, vlan_pcp: value >>> 13 } : { ...rest, vlan_vid: vid };
}

const ETH_IP = 0x0800;
const ETH_IPV6 = 0x86dd;
const ETH_ARP = 0x0806;
const ETH_RARP = 0x8035;
const ND_SOLICIT = 135;
const ND_ADVERT = 136;

const satisfied: Readonly<Record<Prerequisite, (match: Match) => boolean>> = {
  none: () => true,
  vlan: (m) => m.vlan_vid !== undefined,
  mpls: (m) => m.eth_type === 0x8847 || m.eth_type === 0x8848,
  ip: (m) => etherType(m) === ETH_IP,
  ipv6: (m) => etherType(m) === ETH_IPV6,
  anyIp: isAnyIp,
  arp: (m) => etherType(m) === ETH_ARP || etherType(m) === ETH_RARP,
  tcp: (m) => isAnyIp(m) && m.ip_proto === 6,
  udp: (m) => isAnyIp(m) && m.ip_proto === 17,
  sctp: (m) => isAnyIp(m) && m.ip_proto === 132,
  icmp: (m) => etherType(m) === ETH_IP && m.ip_proto === 1,
  icmpv6: (m) => etherType(m) === ETH_IPV6 && m.ip_proto === 58,
  nd: (m) => isNd(m, ND_SOLICIT) || isNd(m, ND_ADVERT),
  ndSolicit: (m) => isNd(m, ND_SOLICIT),
  ndAdvert: (m) => isNd(m, ND_ADVERT),
};

/** A packet type of the Ethernet-type namespace stands for the Ethernet type (packets without an Ethernet header). */
function etherType(match: Match): unknown {
  const packetType = match.packet_type;
  return match.eth_type ?? (typeof packetType === 'number' && packetType >>> 16 === 1 ? packetType & 0xffff : undefined);
}

function isAnyIp(match: Match): boolean {
  const type = etherType(match);
  return type === ETH_IP || type === ETH_IPV6;
}

function isNd(match: Match, type: number): boolean {
  return etherType(match) === ETH_IPV6 && match.ip_proto === 58 && match.icmpv6_type === type;
}

function requirePrerequisite(field: Field, match: Match): void {
  if (!satisfied[field.needs](match)) throw new SeineError('INVARIANT', `${field.name} is matched without its prerequisite ${field.needs}`);
}

/**
 * Reads an `ofp_match` with its padding. Registers come back as `reg*`, whichever form was on the wire.
 *
 * @throws SeineError `PROTOCOL` if a length is wrong, or a field occurs twice.
 */
export function decodeMatch(bytes: Uint8Array): Match {
  const r = new ByteReader(bytes, 'match');
  const type = r.u16();
  const length = r.u16();
  if (type !== OXM_MATCH || length < 4 || length > bytes.length)
    throw new SeineError('PROTOCOL', `match of type ${type} and length ${length}`);
  return decodeOxmFields(bytes.subarray(4, length));
}

/** Reads TLVs to the end of `bytes`. */
export function decodeOxmFields(bytes: Uint8Array): Match {
  const r = new ByteReader(bytes, 'match fields');
  const found: Record<string, AnyValue | Masked<AnyValue>> = {};
  const unknown = new ByteWriter();
  while (r.remaining > 0) {
    const entry = readOxm(r);
    if (entry instanceof Uint8Array) unknown.raw(entry);
    else if (isRegister(entry.field)) splitRegister(found, entry.field, entry.value, entry.mask);
    else
      addOnce(
        found,
        entry.field.name,
        entry.mask === undefined ? entry.value : ({ value: entry.value, mask: entry.mask } as Masked<AnyValue>),
      );
  }
  if (unknown.length > 0) found['unknown'] = unknown.finish();
  return found as Match; // each name was written with a value of its row's type
}

function splitRegister(
  found: Record<string, AnyValue | Masked<AnyValue>>,
  field: Field,
  value: AnyValue,
  mask: AnyValue | undefined,
): void {
  const words = field.bytes / 4;
  const first = Number(/\d+$/.exec(field.name)?.[0]) * words;
  const wide = BigInt(typeof value === 'object' ? 0 : value);
  const wideMask = mask === undefined ? (1n << BigInt(field.bits)) - 1n : BigInt(typeof mask === 'object' ? 0 : mask);
  for (let word = 0; word < words; word++) {
    const shift = BigInt(32 * (words - 1 - word));
    const wordMask = Number((wideMask >> shift) & 0xffff_ffffn);
    const wordValue = Number((wide >> shift) & 0xffff_ffffn);
    if (wordMask === 0) continue;
    addOnce(found, `reg${first + word}`, wordMask === 0xffff_ffff ? wordValue : { value: wordValue, mask: wordMask });
  }
}

function addOnce(found: Record<string, AnyValue | Masked<AnyValue>>, name: string, value: AnyValue | Masked<AnyValue>): void {
  if (name in found) throw new SeineError('PROTOCOL', `match has ${name} twice`);
  found[name] = value;
}

/** Whether a name from outside is a field of a match. */
export function isFieldName(name: string): name is FieldName {
  return fieldNamed(name) !== undefined;
}
