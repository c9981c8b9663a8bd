import type { Subfield } from '../match/fields.ts';
import { requireField } from '../match/oxm.ts';
import { headerName } from './field-names.ts';

/** Prints `NAME[]`, `NAME[3]` or `NAME[0..15]`. */
export function printSubfield({ field, offset, bits }: Subfield): string {
  const name = headerName(field);
  if (offset === 0 && bits === requireField(field).subfieldBits) return `${name}[]`;
  return bits === 1 ? `${name}[${offset}]` : `${name}[${offset}..${offset + bits - 1}]`;
}
