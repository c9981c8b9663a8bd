import { ByteReader, ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Action } from '../actions/action.ts';
import { readActions, writeActions } from '../actions/actions.ts';
import { OPENFLOW_13, OPENFLOW_15, type Version } from '../protocol.ts';

/**
 * Instructions of a flow. Each one occurs at most once, and they are always executed in this order, so this is a record and not a list.
 * `{}` drops the packet.
 */
export interface Instructions {
  readonly apply?: readonly Action[];
  readonly clearActions?: true;
  /** Merged into the packet's action set. */
  readonly write?: readonly Action[];
  readonly writeMetadata?: { readonly value: bigint; readonly mask: bigint };
  readonly gotoTable?: number;
  /** Instructions without a member in this build, in wire form; written last. */
  readonly unknown?: Uint8Array;
}

const GOTO_TABLE = 1;
const WRITE_METADATA = 2;
const WRITE_ACTIONS = 3;
const APPLY_ACTIONS = 4;
const CLEAR_ACTIONS = 5;
/** OpenFlow 1.3 only. */
const METER = 6;

/** Lengths of instructions of fixed size. */
const fixedBytes: Readonly<Record<number, number>> = { [GOTO_TABLE]: 8, [WRITE_METADATA]: 24, [CLEAR_ACTIONS]: 8, [METER]: 8 };

const scratch = new ByteWriter(512);

/**
 * Encodes the instructions in the order and form in which Open vSwitch dumps them. Two sets of instructions mean the same if their bytes
 * are equal.
 *
 * Source: OpenFlow 1.5.1 `ofp_instruction` (u16 type, u16 length, body, all in multiples of 8 bytes).
 *
 * @throws SeineError `INVARIANT` if a number does not fit its field.
 */
export function encodeInstructions(instructions: Instructions, version: Version = OPENFLOW_15): Uint8Array {
  writeInstructions(scratch.truncate(0), instructions, version);
  return scratch.finish();
}

export function writeInstructions(w: ByteWriter, instructions: Instructions, version: Version = OPENFLOW_15): void {
  const { clearActions, write, writeMetadata, gotoTable, unknown } = instructions;
  const apply = version === OPENFLOW_13 ? writeMeter(w, instructions.apply) : instructions.apply;
  if (apply !== undefined && apply.length > 0) writeList(w, APPLY_ACTIONS, apply, version);
  if (clearActions) w.u16(CLEAR_ACTIONS).u16(8).u32(0);
  if (write !== undefined && write.length > 0) writeList(w, WRITE_ACTIONS, write, version);
  if (writeMetadata !== undefined) {
    w.u16(WRITE_METADATA).u16(24).u32(0);
    w.u64(writeMetadata.value & writeMetadata.mask).u64(writeMetadata.mask);
  }
  if (gotoTable !== undefined) w.u16(GOTO_TABLE).u16(8).u8(gotoTable).zeros(3);
  if (unknown !== undefined) w.raw(unknown);
}

/** Writes the meter: OpenFlow 1.3 has an instruction where 1.5 has an action; it comes first. @returns the other actions */
function writeMeter(w: ByteWriter, apply: readonly Action[] = []): readonly Action[] {
  const at = apply.findIndex(({ kind }) => kind === 'meter');
  const meter = apply[at];
  if (meter?.kind !== 'meter') return apply;
  w.u16(METER).u16(8).u32(meter.meter);
  return apply.toSpliced(at, 1);
}

function writeList(w: ByteWriter, type: number, actions: readonly Action[], version: Version): void {
  const start = w.length;
  w.u16(type).u16(0).u32(0);
  writeActions(w, actions, version);
  w.patchU16(start + 2, w.length - start);
}

/** @throws SeineError `PROTOCOL` if a length is wrong, or an instruction occurs twice. */
export function decodeInstructions(bytes: Uint8Array, version: Version = OPENFLOW_15): Instructions {
  const r = new ByteReader(bytes, 'instructions');
  let unknown: ByteWriter | undefined;
  const found: { -readonly [K in keyof Instructions]: Instructions[K] } = {};
  const seen: number[] = [];
  let meter: Action | undefined;
  while (r.remaining > 0) {
    const start = r.offset;
    const type = r.peekU16(0);
    const length = r.peekU16(2);
    if (length < 8 || length % 8 !== 0) throw new SeineError('PROTOCOL', `instruction length ${length} at ${start}`);
    if (seen.includes(type)) throw new SeineError('PROTOCOL', `instruction ${type} twice`);
    seen.push(type);
    const fixed = fixedBytes[type];
    if (fixed !== undefined && length !== fixed) throw new SeineError('PROTOCOL', `instruction ${type} of ${length} bytes at ${start}`);
    const body = r.part(length, 'instruction').skip(4);
    if (type === METER && version === OPENFLOW_13) {
      meter = { kind: 'meter', meter: body.u32() };
      continue;
    }
    const read = readInstruction(type, body, version);
    if (read === undefined) unknown = (unknown ?? new ByteWriter()).raw(bytes.subarray(start, start + length));
    else Object.assign(found, read);
  }
  if (meter !== undefined) found.apply = [meter, ...(found.apply ?? [])];
  if (unknown !== undefined) found.unknown = unknown.finish();
  return found;
}

function readInstruction(type: number, body: ByteReader, version: Version): Instructions | undefined {
  switch (type) {
    case APPLY_ACTIONS:
      return { apply: readActions(body.skip(4), version) };
    case WRITE_ACTIONS:
      return { write: readActions(body.skip(4), version) };
    case CLEAR_ACTIONS:
      return { clearActions: true };
    case WRITE_METADATA:
      return { writeMetadata: { value: body.skip(4).u64(), mask: body.u64() } };
    case GOTO_TABLE:
      return { gotoTable: body.u8() };
    default:
      return undefined;
  }
}
