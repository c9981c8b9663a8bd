import type { ByteWriter } from '../../base/bytes/bytes.ts';
import type { FieldName } from '../match/fields.ts';
import { type AnyValue, requireField, writeOxm } from '../match/oxm.ts';
import { EXPERIMENTER, NICIRA } from '../protocol.ts';
import type { ActionOf, SetFieldAction } from './action.ts';

/** Maximum number of bits in one `load`. */
const loadBits = 64;

/**
 * Appends a masked `setField` for OpenFlow 1.3, whose standard action takes no mask: one `load` per run of mask bits, from the lowest up;
 * NXAST_REG_LOAD2 for a field that `load` cannot name.
 */
export function writeMaskedIn13(w: ByteWriter, action: SetFieldAction, writeLoad: (load: ActionOf<'load'>) => void): void {
  if (isOfVendor(action.field)) writeLoad2(w, action.field, action);
  else for (const load of loadsOf(action)) writeLoad(load);
}

export function isOfVendor(name: FieldName): boolean {
  return requireField(name).vendor !== 0;
}

/** Source: Open vSwitch NXAST_REG_LOAD2: one OXM TLV, optionally with a mask, and zeros. */
export function writeLoad2(w: ByteWriter, name: FieldName, { value, mask }: { readonly value: AnyValue; readonly mask?: AnyValue }): void {
  const start = w.length;
  w.u16(EXPERIMENTER).u16(0).u32(NICIRA).u16(REG_LOAD2);
  writeOxm(w, requireField(name), value, mask);
  w.alignTo(8, start).patchU16(start + 2, w.length - start);
}

const REG_LOAD2 = 33;

function loadsOf({ field: name, value, mask }: SetFieldAction): ActionOf<'load'>[] {
  const field = requireField(name);
  if (typeof value === 'object' || typeof mask === 'object' || mask === undefined) return [];
  const [wide, wideMask] = [BigInt(value), BigInt(mask)];
  const loads: ActionOf<'load'>[] = [];
  for (let offset = 0; offset < field.bits; ) {
    const bits = runLength(wideMask, offset, field.bits);
    if (bits > 0)
      loads.push({ kind: 'load', to: { field: name, offset, bits }, value: (wide >> BigInt(offset)) & ((1n << BigInt(bits)) - 1n) });
    offset += Math.max(bits, 1);
  }
  return loads;
}

/** Number of consecutive one-bits of the mask from `offset` up, at most what one `load` can carry. */
function runLength(mask: bigint, offset: number, end: number): number {
  let bits = 0;
  while (offset + bits < end && bits < loadBits && ((mask >> BigInt(offset + bits)) & 1n) === 1n) bits++;
  return bits;
}
