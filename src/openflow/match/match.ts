import { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';
import { type Field, type FieldName, type FieldValue, fieldNamed, fieldsInOrder } from './fields.ts';
import { type AnyValue, isMasked, type Masked, readOxm, requireField, writeOxm } from './oxm.ts';
import { bitsMet, neededBits } from './prerequisites.ts';
import { RegisterFile } from './registers.ts';

/**
 * Match of a flow: each field at most once, as an exact value or as `{ value, mask }`. `{}` matches every packet.
 *
 * Registers may be given as `reg*`, `xreg*` or `xxreg*` as long as no bit is given twice.
 */
export type Match = { readonly [F in FieldName]?: FieldValue<F> | Masked<FieldValue<F>> } & {
  /** OXM TLVs without a row in this build, in wire form; written last. */
  readonly unknown?: Uint8Array;
};

const OXM_MATCH = 1;
const VLAN_PRESENT_AND_VID = 0x1fff;

const scratch = new ByteWriter(512);

/**
 * Encodes the match as `ofp_match`: header and padding included, fields in the order and form in which Open vSwitch dumps them. Two matches
 * mean the same exactly if their bytes are equal.
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
  w.u32(OXM_MATCH << 16);
  writeOxmFields(w, match, version);
  w.patchU16(start + 2, w.length - start).alignTo(8, start);
}

/** Values of the match being written, by the field's order; cleared while it is written, so that nothing is allocated. */
const slots: (AnyValue | Masked<AnyValue> | undefined)[] = fieldsInOrder.map(() => undefined);
/** One bit for each slot in use: iterating over the bits visits the fields in order. */
const used = new Int32Array(Math.ceil(slots.length / 32));
const registers = new RegisterFile();
const inOrder13 = fieldsInOrder.map(({ in13 }) => in13);
const registerOrder = requireField('reg0').order;
const vlanTciOrder = requireField('vlan_tci').order;
const tunnelFlagsOrder = requireField('tun_flags').order;

/** Writes the TLVs alone, without header and padding: also for packet-in metadata and packet-out. */
export function writeOxmFields(w: ByteWriter, match: Match, version: Version = OPENFLOW_15): void {
  clear();
  let needed = 0;
  for (const name in match) {
    const given = match[name as keyof Match];
    if (given === undefined || name === 'unknown') continue;
    const field = requireField(name);
    const { order } = field;
    needed |= neededBits[order] ?? 0;
    if (field.firstWord >= 0) registers.add(field, given);
    else {
      slots[order] = given;
      used[order >>> 5] = (used[order >>> 5] ?? 0) | (1 << (order & 31));
    }
  }
  if (slots[vlanTciOrder] !== undefined) {
    writeOxmFields(w, withoutVlanTci(match), version);
    return;
  }
  if (needed !== 0) requirePrerequisites(needed);
  writeSlots(w, version);
  if (match.unknown !== undefined) w.raw(match.unknown);
}

/** Clears the slots that a refused match may have left. */
function clear(): void {
  registers.clear();
  for (let word = 0; word < used.length; word++) {
    for (let bits = used[word] ?? 0; bits !== 0; bits &= bits - 1) slots[32 * word + lowestBit(bits)] = undefined;
    used[word] = 0;
  }
}

function lowestBit(bits: number): number {
  return 31 - Math.clz32(bits & -bits);
}

function requirePrerequisites(needed: number): void {
  const lacking = needed & ~bitsMet(slots);
  if (lacking === 0) return;
  const field = fieldsInOrder.find(({ order }) => slots[order] !== undefined && ((neededBits[order] ?? 0) & lacking) !== 0);
  throw new SeineError('INVARIANT', `${field?.name} is matched without its prerequisite ${field?.needs}`);
}

function writeSlots(w: ByteWriter, version: Version): void {
  const fields = version === OPENFLOW_13 ? inOrder13 : fieldsInOrder;
  let registersDue = true;
  for (let word = 0; word < used.length; word++) {
    for (let bits = used[word] ?? 0; bits !== 0; bits &= bits - 1) {
      const order = 32 * word + lowestBit(bits);
      if (registersDue && order > registerOrder) {
        registers.flush(w, version);
        registersDue = false;
      }
      const field = fields[order];
      const given = slots[order];
      if (field !== undefined && given !== undefined) writeGiven(w, field, given);
    }
  }
  if (registersDue) registers.flush(w, version);
}

function writeGiven(w: ByteWriter, field: Field, given: AnyValue | Masked<AnyValue>): void {
  if (typeof given === 'object' && isMasked(given)) writeOxm(w, field, given.value, given.mask);
  // Open vSwitch dumps the only public tunnel flag with its mask even if all bits are matched.
  else writeOxm(w, field, given, field.order === tunnelFlagsOrder ? field.fullNumber : undefined);
}

/** Bits 0 to 12 are `vlan_vid` with the presence bit; as in OVS, the priority counts only if all three of its bits are matched. */
function withoutVlanTci(match: Match): Match {
  const { vlan_tci: tci = 0, ...rest } = match;
  if (rest.vlan_vid !== undefined || rest.vlan_pcp !== undefined) throw new SeineError('INVARIANT', 'vlan_tci and vlan_vid or vlan_pcp');
  const value = isMasked(tci) ? tci.value : tci;
  const mask = isMasked(tci) ? tci.mask : 0xffff;
  const vid = { value: value & VLAN_PRESENT_AND_VID, mask: mask & VLAN_PRESENT_AND_VID };
  const hasPriority = mask >>> 13 === 7 && (value & VLAN_PRESENT_AND_VID) !== 0;
  return hasPriority ? { ...rest, vlan_vid: vid, vlan_pcp: value >>> 13 } : { ...rest, vlan_vid: vid };
}

/**
 * Reads an `ofp_match` with its padding. Registers are returned as `reg*`, whichever form was on the wire.
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
  let unknown: ByteWriter | undefined;
  while (r.remaining > 0) {
    if (readPacketRegister(r, found)) continue;
    const entry = readOxm(r);
    if (entry instanceof Uint8Array) unknown = (unknown ?? new ByteWriter()).raw(entry);
    else if (entry.field.firstWord >= 0) splitRegister(found, entry.field, entry.value, entry.mask);
    else
      addOnce(
        found,
        entry.field.name,
        entry.mask === undefined ? entry.value : ({ value: entry.value, mask: entry.mask } as Masked<AnyValue>),
      );
  }
  if (unknown !== undefined) found['unknown'] = unknown.finish();
  return found as Match; // the row of each name determined the type of its value
}

const registerNames = Array.from({ length: 16 }, (_, number) => `reg${number}`);

/** Reads `xreg*` as two registers, the usual form in OpenFlow 1.5, without a bigint. @returns whether it was one */
function readPacketRegister(r: ByteReader, found: Record<string, AnyValue | Masked<AnyValue>>): boolean {
  if (r.remaining < 12 || r.peekU16(0) !== PACKET_REGISTERS) return false;
  const low = r.peekU16(2);
  const pair = low >>> 9;
  const isMasked = (low & 0x1ff) === 0x110;
  if (pair > 7 || !(isMasked ? r.remaining >= 20 : (low & 0x1ff) === 8)) return false;
  r.skip(4);
  const [high, lower] = [r.u32(), r.u32()];
  const [highMask, lowerMask] = isMasked ? [r.u32(), r.u32()] : [0xffff_ffff, 0xffff_ffff];
  addRegister(found, 2 * pair, high, highMask);
  addRegister(found, 2 * pair + 1, lower, lowerMask);
  return true;
}

const PACKET_REGISTERS = 0x8001;

/**
 * Adds one register of a TLV. A register that is already matched is a duplicate even if its mask is zero: Open vSwitch also treats it so.
 */
function addRegister(found: Record<string, AnyValue | Masked<AnyValue>>, number: number, value: number, mask: number): void {
  const name = registerNames[number] ?? '';
  if (mask === 0 && !(name in found)) return;
  addOnce(found, name, mask === 0xffff_ffff ? value : { value, mask });
}

/** Registers of 32, 64 or 128 bits. */
function splitRegister(
  found: Record<string, AnyValue | Masked<AnyValue>>,
  field: Field,
  value: AnyValue,
  mask: AnyValue | undefined,
): void {
  if (typeof value === 'number') {
    addRegister(found, field.firstWord, value, typeof mask === 'number' ? mask : 0xffff_ffff);
    return;
  }
  const words = field.bytes / 4;
  const wide = BigInt(typeof value === 'object' ? 0 : value);
  const wideMask = mask === undefined ? field.fullBigint : BigInt(typeof mask === 'object' ? 0 : mask);
  for (let word = 0; word < words; word++) {
    const shift = BigInt(32 * (words - 1 - word));
    const wordMask = Number((wideMask >> shift) & 0xffff_ffffn);
    addRegister(found, field.firstWord + word, Number((wide >> shift) & 0xffff_ffffn), wordMask);
  }
}

function addOnce(found: Record<string, AnyValue | Masked<AnyValue>>, name: string, value: AnyValue | Masked<AnyValue>): void {
  if (name in found) throw new SeineError('PROTOCOL', `match has ${name} twice`);
  found[name] = value;
}

/** Reports whether an external name is a field of a match. */
export function isFieldName(name: string): name is FieldName {
  return fieldNamed(name) !== undefined;
}
