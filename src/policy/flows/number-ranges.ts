import { registerFields } from '../../dataplane/pipeline/fields.ts';
import type { FieldSpec } from '../../dataplane/pipeline/registers.ts';
import type { NumberKind } from './recovered-numbers.ts';

/** First number that is allocated of each kind. Number 0 means none, and class 1 is that of pods that are blocked pending policy. */
const firstNumbers: Readonly<Record<NumberKind, number>> = { class: 2, coarse: 1, fine: 1, decision: 1 };

/** Returns the numbers that may be allocated for a kind; `first` and `last` are included. */
export type NumberRanges = (kind: NumberKind) => { readonly first: number; readonly last: number };

/** Returns all numbers that fit into the register field of a kind. */
export function numberRange(kind: NumberKind): ReturnType<NumberRanges> {
  const field: FieldSpec = {
    class: registerFields.networkPolicyClass,
    coarse: registerFields.sourceCoarse,
    fine: registerFields.sourceFine,
    decision: registerFields.decision,
  }[kind];
  return { first: firstNumbers[kind], last: 2 ** (field.bits[1] - field.bits[0] + 1) - 1 };
}
