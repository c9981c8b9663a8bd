import { registerFields } from '../../dataplane/pipeline/fields.ts';
import type { FieldSpec } from '../../dataplane/pipeline/registers.ts';
import type { NumberKind } from './recovered-numbers.ts';

/** First number that is allocated of each kind. Number 0 means none, and class 1 is that of pods that are blocked pending policy. */
const firstNumbers: Readonly<Record<NumberKind, number>> = { class: 2, adminClass: 2, baselineClass: 2, coarse: 1, fine: 1, decision: 1 };

/** Coarse number of addresses that cannot be distinguished. Classes with rules that deny or pass have a row for it that denies. */
export const unnumberedCoarse = 4_095;

/** Returns the numbers that may be allocated for a kind; `first` and `last` are included. */
export type NumberRanges = (kind: NumberKind) => { readonly first: number; readonly last: number };

/** Returns all numbers that fit into the register field of a kind. */
export function numberRange(kind: NumberKind): ReturnType<NumberRanges> {
  const field: FieldSpec = {
    class: registerFields.networkPolicyClass,
    adminClass: registerFields.adminClass,
    baselineClass: registerFields.baselineClass,
    coarse: registerFields.sourceCoarse,
    fine: registerFields.sourceFine,
    decision: registerFields.decision,
  }[kind];
  const last = 2 ** (field.bits[1] - field.bits[0] + 1) - 1;
  return { first: firstNumbers[kind], last: kind === 'coarse' ? Math.min(last, unnumberedCoarse - 1) : last };
}
