import { registerFields } from '../../dataplane/pipeline/fields.ts';
import type { FieldSpec } from '../../dataplane/pipeline/registers.ts';
import type { NumberKind } from './recovered-numbers.ts';

/** First numbers are not lent: 0 is nobody's, and class 1 is that of pods that nobody has decided about. */
const firstNumbers: Readonly<Record<NumberKind, number>> = { class: 2, coarse: 1, fine: 1, decision: 1 };

/** What may be lent of each kind: both ends belong to it. */
export type NumberRanges = (kind: NumberKind) => { readonly first: number; readonly last: number };

/** As many as the register has room for. */
export function numberRange(kind: NumberKind): ReturnType<NumberRanges> {
  const field: FieldSpec = {
    class: registerFields.networkPolicyClass,
    coarse: registerFields.sourceCoarse,
    fine: registerFields.sourceFine,
    decision: registerFields.decision,
  }[kind];
  return { first: firstNumbers[kind], last: 2 ** (field.bits[1] - field.bits[0] + 1) - 1 };
}
