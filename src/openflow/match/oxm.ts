import type { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type Field, type FieldName, type FieldValue, fieldNamed, fieldOfVendor, fieldWithHeader, type Subfield } from './fields.ts';

/** Value and the bits of it that count; zero bits of the mask match anything. */
export interface Masked<V> {
  readonly value: V;
  readonly mask: V;
}

export type AnyValue = number | bigint | Uint8Array;

export function isMasked<V extends AnyValue>(given: V | Masked<V>): given is Masked<V> {
  return typeof given === 'object' && 'mask' in given;
}

/** @throws SeineError `INVARIANT` for an unknown name (plain JavaScript callers; external text is parsed first). */
export function requireField(name: string): Field {
  const field = fieldNamed(name);
  if (field === undefined) throw new SeineError('INVARIANT', `no field is called ${JSON.stringify(name)}`);
  return field;
}

/**
 * Writes one field as an OXM TLV: header, value and, unless all bits count, mask. The value is ANDed with the mask, because Open vSwitch
 * refuses one-bits outside of the mask (`OFPBMC_BAD_WILDCARDS`). A mask of zeros writes nothing.
 *
 * Source: OpenFlow 1.5.1 section 7.2.3.2 "OXM": u16 class, u7 field, u1 has mask, u8 length.
 *
 * @throws SeineError `INVARIANT` if the value does not fit the field, or has a mask and the field takes none.
 */
export function writeOxm(w: ByteWriter, field: Field, value: AnyValue, mask: AnyValue | undefined): void {
  if (typeof value === 'number') writeNumberOxm(w, field, value, mask);
  else if (typeof value === 'bigint') writeBigintOxm(w, field, value, mask);
  else writeBytesOxm(w, field, value, mask);
}

function writeNumberOxm(w: ByteWriter, field: Field, value: number, mask: AnyValue | undefined): void {
  const full = field.fullNumber;
  if (!(isWhole(value) && value <= full)) throw misfit(field, value);
  if (mask === undefined) {
    writeExact(w, field, value);
    return;
  }
  if (typeof mask !== 'number' || !(isWhole(mask) && mask <= full)) throw misfit(field, mask);
  if (mask === full && field.format !== 'tunnelFlags') writeExact(w, field, value);
  else if (!field.maskable) throw misfit(field, mask);
  else if (mask !== 0) writeMasked(w, field, andNumbers(value, mask), mask);
}

function writeExact(w: ByteWriter, field: Field, value: number): void {
  const { bytes } = field;
  const prefix = field.vendor === 0 ? 4 : 8;
  const at = w.reserve(prefix + bytes);
  const { view } = w;
  view.setUint32(at, field.exactHeader);
  if (prefix === 8) view.setUint32(at + 4, field.vendor);
  storeNumber(view, at + prefix, bytes, value);
}

function writeMasked(w: ByteWriter, field: Field, value: number, mask: number): void {
  const { bytes } = field;
  const prefix = field.vendor === 0 ? 4 : 8;
  const at = w.reserve(prefix + bytes + bytes);
  const { view } = w;
  view.setUint32(at, field.maskedHeader);
  if (prefix === 8) view.setUint32(at + 4, field.vendor);
  storeNumber(view, at + prefix, bytes, value);
  storeNumber(view, at + prefix + bytes, bytes, mask);
}

/** Stores a number that fits in 1, 2, 3, 4, or 6 bytes. */
function storeNumber(view: DataView, at: number, bytes: number, value: number): void {
  if (bytes === 4) view.setUint32(at, value);
  else if (bytes === 2) view.setUint16(at, value);
  else if (bytes === 1) view.setUint8(at, value);
  else {
    const low = value >>> 0; // modulo 2 ** 32
    view.setUint16(at, bytes === 6 ? (value - low) / 0x1_0000_0000 : value >>> 8);
    if (bytes === 6) view.setUint32(at + 2, low);
    else view.setUint8(at + 2, value);
  }
}

/** Most numbers fit in 32 bits, for which the check is nearly free. */
function isWhole(value: number): boolean {
  return value >>> 0 === value || (Number.isInteger(value) && value >= 0);
}

function writeBigintOxm(w: ByteWriter, field: Field, value: bigint, mask: AnyValue | undefined): void {
  const full = field.fullBigint;
  if (field.bytes < 8 || value < 0n || value > full) throw misfit(field, value);
  if (mask === undefined || mask === full) {
    writeBigint(w.u32(field.exactHeader), field.bytes, value);
    return;
  }
  if (typeof mask !== 'bigint' || mask < 0n || mask > full || !field.maskable) throw misfit(field, mask);
  if (mask === 0n) return;
  writeBigint(w.u32(field.maskedHeader), field.bytes, value);
  writeBigint(w, field.bytes, mask);
  w.maskLast(field.bytes);
}

function writeBytesOxm(w: ByteWriter, field: Field, value: Uint8Array, mask: AnyValue | undefined): void {
  if (field.format !== 'bytes' || value.length === 0 || value.length > field.bytes) throw misfit(field, value);
  if (mask === undefined) {
    w.u32(field.oxm + value.length).raw(value);
    return;
  }
  if (!(mask instanceof Uint8Array) || mask.length !== value.length) throw misfit(field, mask);
  if (mask.every((byte) => byte === 0xff)) {
    w.u32(field.oxm + value.length).raw(value);
    return;
  }
  w.u32(field.oxm + 0x100 + ((2 * value.length) & 0xff));
  for (const [at, byte] of value.entries()) w.u8(byte & (mask[at] ?? 0));
  w.raw(mask);
}

function writeBigint(w: ByteWriter, bytes: number, value: bigint): void {
  if (bytes === 16) w.u128(value);
  else w.u64(value);
}

/** Field read from a match or an action. `mask` is absent if all bits count. */
interface OxmEntry {
  readonly field: Field;
  readonly value: AnyValue;
  readonly mask: AnyValue | undefined;
}

/**
 * Reads one OXM TLV.
 *
 * @returns the TLV's bytes if this build does not know the field, or not with this length
 * @throws SeineError `PROTOCOL` if the TLV exceeds the rest of the bytes
 */
export function readOxm(r: ByteReader): OxmEntry | Uint8Array {
  const start = r.offset;
  const header = r.u32();
  const length = header & 0xff;
  const hasMask = (header & 0x100) !== 0;
  const field = header >= EXPERIMENTER_CLASS ? vendorFieldAt(r, header) : fieldWithHeader(header);
  const payload = length - (r.offset - start - 4);
  const width = hasMask ? payload / 2 : payload;
  if (field === undefined || !lengthFits(field, width)) {
    r.offset = start;
    return r.raw(4 + length);
  }
  const value = readValue(r, field, width);
  return { field, value, mask: hasMask ? readValue(r, field, width) : undefined };
}

const EXPERIMENTER_CLASS = 0xffff_0000;

/** Returns the field of the vendor number that follows; does not advance if it is unknown. */
function vendorFieldAt(r: ByteReader, header: number): Field | undefined {
  return (header & 0xff) >= 4 && r.remaining >= 4 ? fieldOfVendor(header, r.u32()) : undefined;
}

function lengthFits(field: Field, width: number): boolean {
  return field.format === 'bytes' ? Number.isInteger(width) && width > 0 && width <= field.bytes : width === field.bytes;
}

function readValue(r: ByteReader, field: Field, width: number): AnyValue {
  if (field.format === 'bytes') return r.raw(width).slice();
  switch (width) {
    case 1:
      return r.u8();
    case 2:
      return r.u16();
    case 3:
      return r.u8() * 0x10000 + r.u16();
    case 4:
      return r.u32();
    case 6:
      return r.u48();
    case 8:
      return r.u64();
    default:
      return (r.u64() << 64n) | r.u64();
  }
}

/** Bitwise AND of numbers up to 48 bits. */
function andNumbers(a: number, b: number): number {
  if (a <= 0xffff_ffff && b <= 0xffff_ffff) return (a & b) >>> 0;
  const split = 0x1_0000_0000;
  return ((Math.floor(a / split) & Math.floor(b / split)) >>> 0) * split + ((a & b) >>> 0);
}

/** 2 ** n for n up to 52; `undefined` for any other n. */
const powers = Float64Array.from({ length: 53 }, (_, n) => 2 ** n);

/** Writes a field with exactly the bits of `to` in its mask. @throws SeineError `INVARIANT` if the value has more bits than `to` */
export function writePlaced(w: ByteWriter, to: Subfield, value: number | bigint): void {
  const field = requireField(to.field);
  const { offset, bits } = to;
  if (typeof value === 'bigint' && offset === 0 && bits === field.bits && field.bytes >= 8) {
    writeBigintOxm(w, field, value, undefined);
    return;
  }
  const room = powers[bits] ?? 0;
  const isPlain = typeof value === 'number' && value >= 0 && value < room && offset + bits <= field.subfieldBits && field.bytes <= 16;
  const unit = powers[field.bits > 48 ? offset & 31 : offset] ?? 0;
  if (!isPlain || unit === 0) writePlacedWide(w, field, to, value);
  else if (field.bits <= 48) writeNumberOxm(w, field, value * unit, (room - 1) * unit);
  else if ((offset & 31) + bits <= 32 && offset >>> 0 === offset)
    writePlacedWord(w, field, { offset, value: value * unit, mask: (room - 1) * unit });
  else writePlacedWide(w, field, to, value);
}

function writePlacedWide(w: ByteWriter, field: Field, to: Subfield, value: number | bigint): void {
  const { value: placed, mask } = placeInField(to, value);
  writeOxm(w, field, placed, mask);
}

/** Writes bits within one of the 32-bit words of a wide field: cheaper than with bigints, which each shift allocates again. */
function writePlacedWord(w: ByteWriter, field: Field, word: { offset: number; value: number; mask: number }): void {
  const before = field.bytes - 4 - (word.offset >>> 5) * 4;
  const after = field.bytes - 4 - before;
  w.u32(field.maskedHeader);
  w.zeros(before).u32(word.value).zeros(after);
  w.zeros(before).u32(word.mask).zeros(after);
}

/** Value and mask that set exactly the bits of `to`. @throws SeineError `INVARIANT` if the value has more bits than `to`. */
export function placeInField(to: Subfield, value: number | bigint): { value: FieldValue; mask: FieldValue } {
  const field = requireField(to.field);
  const wide = BigInt(value);
  if (to.bits < 1 || to.offset < 0 || to.offset + to.bits > field.subfieldBits || wide < 0n || wide >> BigInt(to.bits) !== 0n) {
    throw new SeineError('INVARIANT', `${value} does not fit in ${to.field}[${to.offset}..${to.offset + to.bits - 1}]`);
  }
  const placed = wide << BigInt(to.offset);
  const mask = ((1n << BigInt(to.bits)) - 1n) << BigInt(to.offset);
  return field.bits <= 48 ? { value: Number(placed), mask: Number(mask) } : { value: placed, mask };
}

/**
 * Returns the header of a field in an action with four bytes for it.
 *
 * @throws SeineError `INVARIANT` for fields of a vendor, whose header has eight
 */
export function shortHeader(name: FieldName): number {
  const field = requireField(name);
  if (field.vendor !== 0) throw new SeineError('INVARIANT', `${name} cannot be named in this action`);
  return field.nxmHeader;
}

/** Writes the header by which an action names a field; in fields of a vendor the vendor's number follows. */
export function writeFieldId(w: ByteWriter, header: number, field: Field): void {
  w.u32(header);
  if (field.vendor !== 0) w.u32(field.vendor);
}

/** @returns `undefined` if this build does not know the field */
export function readFieldId(r: ByteReader): Field | undefined {
  const header = r.u32();
  return header >= EXPERIMENTER_CLASS ? vendorFieldAt(r, header) : fieldWithHeader(header);
}

/** Writes `offset << 6 | bits - 1`, as several Nicira actions carry a subfield. */
export function packSubfield(part: Subfield): number {
  if (part.bits < 1 || part.bits > 64 || part.offset < 0 || part.offset > 0x3ff) {
    throw new SeineError('INVARIANT', `${part.field}[${part.offset}..] of ${part.bits} bits does not fit the action`);
  }
  return part.offset * 64 + part.bits - 1;
}

/** Returns the subfield with this header and packed offset and size; `undefined` if the field is unknown. */
export function unpackSubfield(header: number, packed: number): Subfield | undefined {
  const field = fieldWithHeader(header);
  return field && { field: field.name, offset: packed >>> 6, bits: (packed & 63) + 1 };
}

export function wholeField(name: FieldName): Subfield {
  return { field: name, offset: 0, bits: requireField(name).subfieldBits };
}

function misfit(field: Field, value: unknown): SeineError {
  return new SeineError('INVARIANT', `${field.name}: ${String(value)} is not a value or mask of a field of ${field.bits} bits`);
}
