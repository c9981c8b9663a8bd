import type { ActionOf, SetFieldAction } from './action.ts';
import { requireField } from './oxm.ts';

/** Bits that one `load` carries at most. */
const loadBits = 64;

/**
 * A masked `setField` as OpenFlow 1.3 has it, where the standard action takes no mask: one `load` for each run of bits of the
 * mask, from the lowest up.
 */
export function expandSetField({ field: name, value, mask }: SetFieldAction): ActionOf<'load'>[] {
  const field = requireField(name);
  if (typeof value === 'object' || typeof mask === 'object' || mask === undefined) return [];
  const [wide, wideMask] = [BigInt(value), BigInt(mask)];
  const loads: ActionOf<'load'>[] = [];
  for (let offset = 0; offset < field.bits; ) {
    const bits = runLength(wideMask, offset, field.bits);
    if (bits > 0)
      loads.push({ kind: 'load', to: { field: name, offset, bits }, value: (wide >> BigInt(offset)) & ((1n << BigInt(bits)) - 1n) });
    offset += bits + 1;
  }
  return loads;
}

/** One-bits of the mask from `offset` up, as many as one `load` can carry. */
function runLength(mask: bigint, offset: number, end: number): number {
  let bits = 0;
  while (offset + bits < end && bits < loadBits && ((mask >> BigInt(offset + bits)) & 1n) === 1n) bits++;
  return bits;
}
