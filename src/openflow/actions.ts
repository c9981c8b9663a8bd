import { SeineError } from '../errors/seine-error.ts';
import { ByteReader, ByteWriter } from '../wire/bytes.ts';
import type { Action, ActionOf, KnownAction } from './action.ts';
import type { ActionCodec, NestedActions } from './action-codec.ts';
import { conntrackRows } from './action-conntrack.ts';
import { controllerRows } from './action-controller.ts';
import { learnRows } from './action-learn.ts';
import { niciraRows, standardRows } from './action-rows.ts';
import { expandSetField } from './action-set-field.ts';
import { EXPERIMENTER, NICIRA, OPENFLOW_13, OPENFLOW_15, type Version } from './protocol.ts';

/** A `clone` in a `clone` in a … deeper than this is refused; OVS itself stops at 64 resubmits. */
const maxDepth = 32;

/** One row an action. `satisfies` makes the compiler ask for a row when `Action` gains a kind. */
const rows = {
  ...standardRows,
  ...niciraRows,
  ...conntrackRows,
  ...learnRows,
  ...controllerRows,
} satisfies { readonly [K in KnownAction['kind']]: ActionCodec<ActionOf<K>> };

interface Form {
  readonly codec: ActionCodec<KnownAction>;
  readonly index: number;
}

const byType = new Map<number, Form>();
const bySubtype = new Map<number, Form>();
for (const codec of Object.values(rows) as ActionCodec<KnownAction>[]) {
  for (const [index, wire] of codec.wire.entries()) {
    const [map, key] = 'type' in wire ? [byType, wire.type] : [bySubtype, wire.nicira];
    // In OpenFlow 1.5 `load` shares the wire form of `setField`, which comes first and is what it decodes to.
    if (!map.has(key)) map.set(key, { codec, index });
  }
}

/** A row as the encoder uses it: all of one shape, since it is looked at for every action. */
interface Encoder {
  readonly encode: ActionCodec<KnownAction>['encode'];
  readonly choose: ActionCodec<KnownAction>['choose'];
  /** By index into `wire`: the first 32 bits, without the length; and the Nicira subtype, or -1. */
  readonly heads: readonly { readonly start: number; readonly subtype: number }[];
}

const encoders = new Map(
  (Object.entries(rows) as [string, ActionCodec<KnownAction>][]).map(([kind, { encode, choose, wire }]): [string, Encoder] => {
    const heads = wire.map((id) =>
      'type' in id ? { start: id.type * 0x1_0000, subtype: -1 } : { start: EXPERIMENTER * 0x1_0000, subtype: id.nicira },
    );
    return [kind, { encode, choose, heads }];
  }),
);

function nestedIn(version: Version): NestedActions {
  return { version, encode: (w, actions) => writeActions(w, actions, version), decode: (r) => decodeDeeper(r, version) };
}

const nestedIn13 = nestedIn(OPENFLOW_13);
const nestedIn15 = nestedIn(OPENFLOW_15);

export function encodeActions(actions: readonly Action[], version: Version = OPENFLOW_15): Uint8Array {
  const w = new ByteWriter(256);
  writeActions(w, actions, version);
  return w.finish();
}

export function writeActions(w: ByteWriter, actions: readonly Action[], version: Version = OPENFLOW_15): void {
  for (let at = 0; at < actions.length; at++) {
    const action = actions[at];
    if (action !== undefined) writeAction(w, action, version);
  }
}

/**
 * Appends one action, header and padding included, in the form in which Open vSwitch dumps it.
 *
 * @throws SeineError `INVARIANT` if a number does not fit its field (a bug in a compiler of ours).
 */
export function writeAction(w: ByteWriter, action: Action, version: Version = OPENFLOW_15): void {
  if (action.kind === 'unknown') {
    w.raw(action.bytes);
    return;
  }
  if (version === OPENFLOW_13 && action.kind === 'setField' && action.mask !== undefined) {
    for (const load of expandSetField(action)) writeAction(w, load, version);
    return;
  }
  const encoder = encoders.get(action.kind);
  if (encoder === undefined) throw new SeineError('INVARIANT', `no action is called ${JSON.stringify(action.kind)}`);
  const start = w.length;
  const head = encoder.heads[encoder.choose === undefined ? 0 : encoder.choose(action, version)];
  if (head === undefined) throw new SeineError('INVARIANT', `action ${action.kind} has no such form`);
  w.u32(head.start);
  if (head.subtype >= 0) w.u32(NICIRA).u16(head.subtype);
  encoder.encode(w, action, version === OPENFLOW_13 ? nestedIn13 : nestedIn15);
  w.alignTo(8, start).patchU16(start + 2, w.length - start);
}

let depth = 0;

function decodeDeeper(r: ByteReader, version: Version): Action[] {
  if (depth >= maxDepth) throw new SeineError('PROTOCOL', `actions nested deeper than ${maxDepth}`);
  depth++;
  try {
    return readActions(r, version);
  } finally {
    depth--;
  }
}

/** Reads an action list from its bytes. See `readActions`. */
export function decodeActions(bytes: Uint8Array, version: Version = OPENFLOW_15): Action[] {
  return readActions(new ByteReader(bytes, 'actions'), version);
}

/**
 * Reads actions to the end of `r`.
 *
 * Lossless or `unknown`: an action comes back modelled only if encoding it gives the same bytes again. A flag we do not know
 * about must show up as a difference, not vanish.
 *
 * @throws SeineError `PROTOCOL` if a length is not a multiple of 8 or runs past the end.
 */
export function readActions(r: ByteReader, version: Version = OPENFLOW_15): Action[] {
  const actions: Action[] = [];
  while (r.remaining > 0) {
    const length = r.peekU16(2);
    if (length < 8 || length % 8 !== 0) throw new SeineError('PROTOCOL', `action length ${length} at ${r.offset}`);
    actions.push(decodeAction(r.raw(length), version));
  }
  return actions;
}

function decodeAction(bytes: Uint8Array, version: Version): Action {
  const action = decodeKnown(new ByteReader(bytes, 'action'), version);
  if (action === undefined) return { kind: 'unknown', bytes: bytes.slice() };
  return encodesTo(action, bytes, version) ? action : { kind: 'unknown', bytes: bytes.slice(), means: action };
}

function encodesTo(action: KnownAction, bytes: Uint8Array, version: Version): boolean {
  try {
    return Buffer.compare(encodeActions([action], version), bytes) === 0;
  } catch (thrown) {
    // A value from the wire that our own encoder refuses is a form we do not model.
    if (thrown instanceof SeineError && thrown.code === 'INVARIANT') return false;
    throw thrown;
  }
}

function decodeKnown(r: ByteReader, version: Version): KnownAction | undefined {
  const type = r.u16();
  r.skip(2);
  const form = type === EXPERIMENTER ? niciraForm(r) : byType.get(type);
  return form?.codec.decode(r, version === OPENFLOW_13 ? nestedIn13 : nestedIn15, form.index);
}

function niciraForm(r: ByteReader): Form | undefined {
  return r.remaining >= 6 && r.u32() === NICIRA ? bySubtype.get(r.u16()) : undefined;
}
