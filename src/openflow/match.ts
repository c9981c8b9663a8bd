import { SeineError } from '../errors/seine-error.ts';
import { ByteReader, ByteWriter } from '../wire/bytes.ts';
import { type Field, type FieldName, type FieldValue, fieldNamed, type Prerequisite } from './fields.ts';
import { type AnyValue, type Masked, readOxm, requireField, writeOxm } from './oxm.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from './protocol.ts';

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
 * The match as `ofp_match`: header and padding included, fields in the order and form in which Open vSwitch
 * dumps them. Two matches mean the same exactly if their bytes are equal.
 *
 * Source: OpenFlow 1.5.1 `ofp_match` (u16 type = 1, u16 length without padding, OXM TLVs, zeros to a multiple of 8).
 *
 * @throws SeineError `INVARIANT` if a value does not fit its field, or a field lacks its prerequisite.
 */
export function encodeMatch(match: Match, version: Version = OPENFLOW_15): Uint8Array {
  writeMatch(scratch.truncate(0), match, version);
  return scratch.finish();
}

export function writeMatch(w: ByteWriter, match: Match, version: Version = OPENFLOW_15): void {
  const start = w.length;
  w.u16(OXM_MATCH).u16(0);
  writeOxmFields(w, match, version);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** The TLVs alone, without header and padding: also what packet-in metadata and packet-out carry. */
export function writeOxmFields(w: ByteWriter, match: Match, version: Version = OPENFLOW_15): void {
  const plain = match.vlan_tci === undefined ? match : withoutVlanTci(match);
  registers.clear(); // a match that was refused half-way may have left something
  const queue: Entry[] = [];
  const met = prerequisitesMet(plain);
  for (const name in plain) {
    const given = plain[name as keyof Match];
    if (given === undefined || name === 'unknown') continue;
    const named = requireField(name);
    const field = version === OPENFLOW_13 ? named.in13 : named;
    if (field.needs !== 'none' && (met & prerequisiteBit[field.needs]) === 0) {
      throw new SeineError('INVARIANT', `${field.name} is matched without its prerequisite ${field.needs}`);
    }
    if (field.firstWord < 0) insertByOrder(queue, { field, given });
    else registers.add(field, given);
  }
  writeInOrder(w, queue, version);
  if (plain.unknown !== undefined) w.raw(plain.unknown);
}

interface Entry {
  readonly field: Field;
  readonly given: AnyValue | Masked<AnyValue>;
}

const registerOrder = requireField('reg0').order;

function writeInOrder(w: ByteWriter, queue: readonly Entry[], version: Version): void {
  let at = 0;
  for (let entry = queue[at]; entry !== undefined && entry.field.order < registerOrder; entry = queue[++at]) writeGiven(w, entry);
  registers.flush(w, version);
  for (let entry = queue[at]; entry !== undefined; entry = queue[++at]) writeGiven(w, entry);
}

function writeGiven(w: ByteWriter, { field, given }: Entry): void {
  if (isMasked(given)) writeOxm(w, field, given.value, given.mask);
  // Open vSwitch dumps the one public tunnel flag with its mask even if all of it counts.
  else writeOxm(w, field, given, field.format === 'tunnelFlags' ? field.fullNumber : undefined);
}

export function isMasked<V extends AnyValue>(given: V | Masked<V>): given is Masked<V> {
  return typeof given === 'object' && 'mask' in given;
}

function insertByOrder(queue: Entry[], entry: Entry): void {
  let at = queue.length;
  queue.push(entry);
  for (let before = queue[at - 1]; before !== undefined && before.field.order > entry.field.order; before = queue[--at - 1])
    queue[at] = before;
  queue[at] = entry;
}

/**
 * Registers as OpenFlow 1.5 carries them: in pairs, each pair one 64-bit packet register (`xreg0` is `reg0` above `reg1`),
 * however they were given; one by one for OpenFlow 1.3. Filled and emptied for each match, to allocate nothing.
 */
class RegisterFile {
  readonly #values = new Uint32Array(16);
  readonly #masks = new Uint32Array(16);
  /** One bit a pair. */
  #touched = 0;

  add(field: Field, given: AnyValue | Masked<AnyValue>): void {
    const value = isMasked(given) ? given.value : given;
    const mask = isMasked(given) ? given.mask : undefined;
    if (typeof value === 'number') this.#set(field, field.firstWord, value, typeof mask === 'number' ? mask : 0xffff_ffff);
    else if (typeof value === 'bigint') this.#addWide(field, value, typeof mask === 'bigint' ? mask : field.fullBigint);
  }

  flush(w: ByteWriter, version: Version): void {
    for (let pair = 0; this.#touched >>> pair !== 0; pair++) {
      if (((this.#touched >>> pair) & 1) === 0) continue;
      if (version === OPENFLOW_15) this.#writePair(w, pair);
      else for (const word of [2 * pair, 2 * pair + 1]) this.#writeWord(w, word);
    }
    this.clear();
  }

  clear(): void {
    if (this.#touched === 0) return;
    this.#values.fill(0);
    this.#masks.fill(0);
    this.#touched = 0;
  }

  #writePair(w: ByteWriter, pair: number): void {
    const [highMask, lowMask] = [this.#masks[2 * pair] ?? 0, this.#masks[2 * pair + 1] ?? 0];
    if (highMask === 0 && lowMask === 0) return;
    const exact = highMask === 0xffff_ffff && lowMask === 0xffff_ffff;
    w.u32((exact ? 0x8001_0008 : 0x8001_0110) + pair * 0x200)
      .u32(this.#values[2 * pair] ?? 0)
      .u32(this.#values[2 * pair + 1] ?? 0);
    if (!exact) w.u32(highMask).u32(lowMask);
  }

  #writeWord(w: ByteWriter, word: number): void {
    const mask = this.#masks[word] ?? 0;
    if (mask === 0) return;
    const exact = mask === 0xffff_ffff;
    w.u32((exact ? 0x0001_0004 : 0x0001_0108) + word * 0x200).u32(this.#values[word] ?? 0);
    if (!exact) w.u32(mask);
  }

  #addWide(field: Field, value: bigint, mask: bigint): void {
    const words = field.bytes / 4;
    for (let word = 0; word < words; word++) {
      const shift = BigInt(32 * (words - 1 - word));
      this.#set(field, field.firstWord + word, Number((value >> shift) & 0xffff_ffffn), Number((mask >> shift) & 0xffff_ffffn));
    }
  }

  #set(field: Field, word: number, value: number, mask: number): void {
    const before = this.#masks[word] ?? 0;
    if (!(value >= 0 && value <= 0xffff_ffff && mask >= 0 && mask <= 0xffff_ffff)) {
      throw new SeineError('INVARIANT', `${field.name}: ${value}/${mask} does not fit in 32 bits`);
    }
    if ((before & mask) !== 0) throw new SeineError('INVARIANT', `${field.name} matches bits that another register field matches`);
    this.#masks[word] = before | mask;
    this.#values[word] = (this.#values[word] ?? 0) | (value & mask);
    this.#touched |= 1 << (word >>> 1);
  }
}

const registers = new RegisterFile();

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
const ETH_MPLS = 0x8847;
const ETH_MPLS_MULTICAST = 0x8848;
const ETH_NSH = 0x894f;
const ETH_PBB = 0x88e7;
const ND_SOLICIT = 135;
const ND_ADVERT = 136;

/** One bit a prerequisite, so that a match is looked at once and not once a field. */
const prerequisiteBit: Readonly<Record<Prerequisite, number>> = {
  none: 0,
  vlan: 1,
  mpls: 2,
  ip: 4,
  ipv6: 8,
  anyIp: 4 + 8,
  arp: 16,
  tcp: 32,
  udp: 64,
  sctp: 128,
  icmp: 256,
  icmpv6: 512,
  nd: 1024 + 2048,
  ndSolicit: 1024,
  ndAdvert: 2048,
  ndAny: 1024 + 2048,
  nsh: 4096,
  pbb: 8192,
};

function prerequisitesMet(match: Match): number {
  const vlan = match.vlan_vid === undefined ? 0 : prerequisiteBit.vlan;
  switch (etherType(match)) {
    case ETH_IP:
      return vlan | prerequisiteBit.ip | protocolMet(match, prerequisiteBit.icmp, 1);
    case ETH_IPV6:
      return vlan | prerequisiteBit.ipv6 | protocolMet(match, prerequisiteBit.icmpv6, 58) | neighbourMet(match);
    case ETH_ARP:
    case ETH_RARP:
      return vlan | prerequisiteBit.arp;
    case ETH_MPLS:
    case ETH_MPLS_MULTICAST:
      return vlan | prerequisiteBit.mpls;
    case ETH_NSH:
      return vlan | prerequisiteBit.nsh;
    case ETH_PBB:
      return vlan | prerequisiteBit.pbb;
    default:
      return vlan;
  }
}

function protocolMet(match: Match, icmpBit: number, icmpProtocol: number): number {
  switch (match.ip_proto) {
    case 6:
      return prerequisiteBit.tcp;
    case 17:
      return prerequisiteBit.udp;
    case 132:
      return prerequisiteBit.sctp;
    case icmpProtocol:
      return icmpBit;
    default:
      return 0;
  }
}

function neighbourMet(match: Match): number {
  if (match.ip_proto !== 58) return 0;
  if (match.icmpv6_type === ND_SOLICIT) return prerequisiteBit.ndSolicit;
  return match.icmpv6_type === ND_ADVERT ? prerequisiteBit.ndAdvert : 0;
}

/** A packet type of the Ethernet-type namespace stands for the Ethernet type (packets without an Ethernet header). */
function etherType(match: Match): unknown {
  if (match.eth_type !== undefined) return match.eth_type;
  const packetType = match.packet_type;
  return typeof packetType === 'number' && packetType >>> 16 === 1 ? packetType & 0xffff : undefined;
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
    else if (entry.field.firstWord >= 0) splitRegister(found, entry.field, entry.value, entry.mask);
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
  const wide = BigInt(typeof value === 'object' ? 0 : value);
  const wideMask = mask === undefined ? (1n << BigInt(field.bits)) - 1n : BigInt(typeof mask === 'object' ? 0 : mask);
  for (let word = 0; word < words; word++) {
    const shift = BigInt(32 * (words - 1 - word));
    const wordMask = Number((wideMask >> shift) & 0xffff_ffffn);
    const wordValue = Number((wide >> shift) & 0xffff_ffffn);
    if (wordMask === 0) continue;
    addOnce(found, `reg${field.firstWord + word}`, wordMask === 0xffff_ffff ? wordValue : { value: wordValue, mask: wordMask });
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
