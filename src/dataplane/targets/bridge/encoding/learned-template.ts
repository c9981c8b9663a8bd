import { SeineError } from '../../../../base/errors/seine-error.ts';
import type { Action, LearnAction } from '../../../../openflow/actions/action.ts';
import { encodeInstructions } from '../../../../openflow/flows/instructions.ts';
import { type FieldName, fieldNamed, type Subfield } from '../../../../openflow/match/fields.ts';
import { encodeMatch, type Match } from '../../../../openflow/match/match.ts';

/** Fields of a flow that are compared; both dumps and the flow monitor provide them. Byte arrays may be views. */
export interface CandidateFlow {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly idleTimeout: number;
  readonly hardTimeout: number;
  readonly match: Uint8Array;
  readonly instructions: Uint8Array;
}

/** Bytes of which some bits are fixed and the others arbitrary. */
interface BitPattern {
  readonly given: Uint8Array;
  readonly free: Uint8Array;
}

/** Bits of one field, combined with others of the same field. */
interface FieldBits {
  value: bigint;
  mask: bigint;
}

/**
 * Shape of the flows that one `learn` can create, for any packet: table, priority, and match and actions in which only bits copied from the
 * packet are free. Found by encoding the flow for a packet of zeros and for one of ones.
 *
 * Source: ovs-actions(7) "learn".
 */
export class LearnedTemplate {
  readonly #action: LearnAction;
  readonly #match: BitPattern;
  readonly #instructions: BitPattern;

  constructor(action: LearnAction) {
    this.#action = action;
    this.#match = pattern((from) => encodeMatch(taughtMatch(action, from)));
    this.#instructions = pattern((from) => encodeInstructions({ apply: taughtActions(action, from) }));
  }

  /**
   * Reports whether the flow has this shape, with any cookie. @param timeouts `any`: a previous version of the step may have had other
   * timeouts
   */
  covers(flow: CandidateFlow, timeouts: 'any' | 'same'): boolean {
    const { table, priority, idleTimeout = 0, hardTimeout = 0 } = this.#action;
    return (
      flow.table === table &&
      flow.priority === priority &&
      flow.hardTimeout === hardTimeout &&
      (timeouts === 'any' || flow.idleTimeout === idleTimeout) &&
      fits(this.#match, flow.match) &&
      fits(this.#instructions, flow.instructions)
    );
  }
}

function pattern(encoded: (packet: 'zeros' | 'ones') => Uint8Array): BitPattern {
  const [given, ones] = [encoded('zeros'), encoded('ones')];
  if (given.length !== ones.length) throw new SeineError('INVARIANT', 'flows of one learn action differ in length');
  return { given, free: given.map((byte, at) => byte ^ (ones[at] ?? 0)) };
}

function fits({ given, free }: BitPattern, bytes: Uint8Array): boolean {
  if (bytes.length !== given.length) return false;
  for (let at = 0; at < given.length; at++) if ((((bytes[at] ?? 0) ^ (given[at] ?? 0)) & ~(free[at] ?? 0)) !== 0) return false;
  return true;
}

function taughtMatch({ specs }: LearnAction, packet: 'zeros' | 'ones'): Match {
  const fields = new Map<FieldName, FieldBits>();
  for (const spec of specs) {
    if (spec.do !== 'match') continue;
    const { value, mask } = bitsOf(spec.to, spec.from, packet);
    const known = fields.get(spec.to.field) ?? { value: 0n, mask: 0n };
    fields.set(spec.to.field, { value: known.value | value, mask: known.mask | mask });
  }
  return Object.fromEntries(Array.from(fields, ([field, bits]) => [field, fieldValue(field, bits)]));
}

function taughtActions({ specs }: LearnAction, packet: 'zeros' | 'ones'): readonly Action[] {
  return specs.flatMap((spec): Action[] => {
    if (spec.do === 'output') throw new SeineError('INVARIANT', 'no step teaches an output');
    if (spec.do === 'match') return [];
    const { field } = spec.to;
    const value = fieldValue(field, bitsOf(spec.to, spec.from, packet));
    const action = typeof value === 'object' ? { kind: 'setField', field, ...value } : { kind: 'setField', field, value };
    return [action as Action]; // the field's descriptor determined the type of the value
  });
}

function bitsOf({ offset, bits }: Subfield, from: Subfield | number | bigint, packet: 'zeros' | 'ones'): FieldBits {
  const all = (1n << BigInt(bits)) - 1n;
  const value = typeof from === 'object' ? (packet === 'ones' ? all : 0n) : BigInt(from);
  return { value: value << BigInt(offset), mask: all << BigInt(offset) };
}

/** Returns the value in the form of fields of this width: without a mask if all bits are given. */
function fieldValue(field: FieldName, { value, mask }: FieldBits): number | bigint | { value: number | bigint; mask: number | bigint } {
  const row = fieldNamed(field);
  if (row === undefined) throw new SeineError('INVARIANT', `no field ${field}`);
  const typed = (bits: bigint): number | bigint => (row.bits <= 48 ? Number(bits) : bits);
  return mask === row.fullBigint ? typed(value) : { value: typed(value), mask: typed(mask) };
}
