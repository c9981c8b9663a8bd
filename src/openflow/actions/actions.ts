import { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { placeInField } from '../match/oxm.ts';
import { EXPERIMENTER, NICIRA, OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';
import type { Action, ActionOf, KnownAction } from './action.ts';
import type { ActionCodec, NestedActions, WireId } from './codec.ts';
import { conntrackRows } from './conntrack.ts';
import { controllerRows } from './controller.ts';
import { learnRows } from './learn.ts';
import { niciraRows, standardRows } from './rows.ts';
import { isOfVendor, writeLoad2, writeMaskedIn13 } from './set-field.ts';

/** Maximum depth of `clone` inside `clone`. OVS itself stops at 64 resubmits. */
const maxDepth = 32;

/** One row per action. `satisfies` makes a missing row a type error when `Action` gains a kind. */
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
  for (const [index, wire] of [...codec.wire, ...(codec.wireIn13 === undefined ? [] : [codec.wireIn13])].entries()) {
    const [map, key] = 'type' in wire ? [byType, wire.type] : [bySubtype, wire.nicira];
    // In OpenFlow 1.5 `load` and `setField` have the same wire form. `setField` comes first, so the form decodes to it.
    if (!map.has(key)) map.set(key, { codec, index });
  }
}

/** Start of an action: its first 32 bits without the length, and the subtype of a Nicira action, otherwise -1. */
interface Head {
  readonly start: number;
  readonly subtype: number;
}

/** Row in the form that the encoder of one version uses. All have the same shape, since one is read for every action. */
interface Encoder {
  readonly encode: ActionCodec<KnownAction>['encode'];
  /** Absent if the header is always the same. */
  readonly choose: ActionCodec<KnownAction>['choose'];
  readonly head: Head;
  /** Heads by index into `wire`. */
  readonly heads: readonly Head[];
}

interface Encoders {
  readonly byKind: ReadonlyMap<string, Encoder>;
  readonly setField: Encoder | undefined;
  readonly load: Encoder | undefined;
}

function encodersIn(version: Version): Encoders {
  const byKind = new Map<string, Encoder>();
  for (const [kind, { encode, choose, wire, wireIn13 }] of Object.entries(rows) as [string, ActionCodec<KnownAction>][]) {
    const first = version === OPENFLOW_13 ? (wireIn13 ?? wire[0]) : wire[0];
    byKind.set(kind, { encode, choose, head: headOf(first), heads: wire.map(headOf) });
  }
  return { byKind, setField: byKind.get('setField'), load: byKind.get('load') };
}

function headOf(wire: WireId): Head {
  return 'type' in wire ? { start: wire.type << 16, subtype: -1 } : { start: EXPERIMENTER << 16, subtype: wire.nicira };
}

const encodersIn13 = encodersIn(OPENFLOW_13);
const encodersIn15 = encodersIn(OPENFLOW_15);

/** More than half of the actions are of two kinds in the benchmark `of.encode`, so two comparisons are faster than a lookup. */
function encoderOf({ byKind, setField, load }: Encoders, kind: string): Encoder | undefined {
  if (kind === 'setField') return setField;
  return kind === 'load' ? load : byKind.get(kind);
}

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
  const in13 = version === OPENFLOW_13;
  const encoder = encoderOf(in13 ? encodersIn13 : encodersIn15, action.kind);
  if (encoder === undefined) {
    writeUnknown(w, action);
    return;
  }
  if (in13 && writeOtherwiseIn13(w, action)) return;
  const { encode, choose } = encoder;
  const known = action as KnownAction; // otherwise it has no encoder
  const start = w.length;
  writeHead(w, choose === undefined ? encoder.head : (encoder.heads[choose(known, version)] ?? encoder.head));
  encode(w, known, in13 ? nestedIn13 : nestedIn15);
  w.alignTo(8, start).patchU16(start + 2, w.length - start);
}

/**
 * Writes an action for which OpenFlow 1.3 uses other actions. Separate from `writeAction`, which would otherwise allocate a closure context
 * for each call.
 *
 * @returns whether it was such an action
 */
function writeOtherwiseIn13(w: ByteWriter, action: Action): boolean {
  if (action.kind === 'setField' && action.mask !== undefined) {
    writeMaskedIn13(w, action, (load) => writeAction(w, load, OPENFLOW_13));
    return true;
  }
  if (action.kind !== 'load' || !isOfVendor(action.to.field)) return false;
  writeLoad2(w, action.to.field, placeInField(action.to, action.value));
  return true;
}

function writeHead(w: ByteWriter, { start, subtype }: Head): void {
  const at = w.reserve(subtype < 0 ? 4 : 10);
  const { view } = w;
  view.setInt32(at, start);
  if (subtype < 0) return;
  view.setUint32(at + 4, NICIRA);
  view.setUint16(at + 8, subtype);
}

function writeUnknown(w: ByteWriter, action: Action): void {
  if (action.kind !== 'unknown') throw new SeineError('INVARIANT', `no action is called ${JSON.stringify(action.kind)}`);
  w.raw(action.bytes);
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
 * An action is returned as modelled only if encoding it gives the same bytes again; otherwise it is `unknown`. An unknown flag must appear
 * as a difference, not vanish.
 *
 * @throws SeineError `PROTOCOL` if a length is not a multiple of 8 or exceeds the rest of the bytes.
 */
export function readActions(r: ByteReader, version: Version = OPENFLOW_15): Action[] {
  const actions: Action[] = [];
  while (r.remaining > 0) {
    const length = r.peekU16(2);
    if (length < 8 || length % 8 !== 0) throw new SeineError('PROTOCOL', `action length ${length} at ${r.offset}`);
    actions.push(decodeAction(r.part(length, 'action'), version));
  }
  return actions;
}

function decodeAction(r: ByteReader, version: Version): Action {
  const start = r.offset;
  const end = start + r.remaining;
  const action = decodeKnown(r, version);
  if (action !== undefined && encodesTo(action, { bytes: r.bytes, start, end }, version)) return action;
  const bytes = r.bytes.slice(start, end);
  return action === undefined ? { kind: 'unknown', bytes } : { kind: 'unknown', bytes, means: action };
}

const scratch = new ByteWriter(512);

function encodesTo(
  action: KnownAction,
  to: { readonly bytes: Uint8Array; readonly start: number; readonly end: number },
  version: Version,
): boolean {
  try {
    writeAction(scratch.truncate(0), action, version);
    return scratch.endsWith(to.bytes, 0, to.start, to.end);
  } catch (thrown) {
    // Our own encoder refuses this value from the wire, so it is a form that we do not model.
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
