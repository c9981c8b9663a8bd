import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { beginMessage, endMessage, messageType, NO_BUFFER, OPENFLOW_15, ofGroup, ofPort, type Version } from '../protocol.ts';

/** Source: OpenFlow 1.5.1 `ofp_flow_mod_command`. */
export const flowCommands = ['add', 'modify', 'modifyStrict', 'delete', 'deleteStrict'] as const;
export type FlowCommand = (typeof flowCommands)[number];

/** Source: OpenFlow 1.5.1 `ofp_flow_mod_flags`. Values are added up. */
export const flowFlag = { sendFlowRemoved: 1, checkOverlap: 2, resetCounts: 4, noPacketCounts: 8, noByteCounts: 16 } as const;

/**
 * Change of the flow table, with an encoded match and encoded instructions: a caller that compares flows as bytes sends the bytes that it
 * compared.
 */
export interface FlowMod {
  readonly command: FlowCommand;
  readonly table: number;
  readonly priority: number;
  /** Result of `encodeMatch`: header and padding included. */
  readonly match: Uint8Array;
  /** Result of `encodeInstructions`. */
  readonly instructions: Uint8Array;
  readonly cookie?: bigint;
  /** Modify and delete only: bits of the flow's cookie that must agree. */
  readonly cookieMask?: bigint;
  /** Seconds; 0 for none. */
  readonly idleTimeout?: number;
  readonly hardTimeout?: number;
  /** OpenFlow 1.5 only. */
  readonly importance?: number;
  readonly flags?: number;
  /** Delete only: required output port of the flow. */
  readonly outPort?: number;
  readonly outGroup?: number;
  /** Buffered packet to send through the flow; absent for none. Open vSwitch buffers none. */
  readonly buffer?: number;
}

/** Instructions of deletes and of flows that drop. */
export const noInstructions = new Uint8Array(0);

/**
 * Appends one message, with transaction id 0.
 *
 * Source: OpenFlow 1.5.1 `ofp_flow_mod` (u64 cookie, u64 mask, u8 table, u8 command, u16 idle, u16 hard, u16 priority,
 * u32 buffer, u32 out port, u32 out group, u16 flags, u16 importance, match, instructions).
 *
 * @throws SeineError `INVARIANT` if a number does not fit or the message grows over 64 KiB
 */
export function writeFlowMod(w: ByteWriter, mod: FlowMod, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.flowMod, version);
  writeFlowModBody(w, mod);
  endMessage(w, start);
}

/** Appends the part after the header: the same in both versions, with a match and instructions of that version. */
export function writeFlowModBody(w: ByteWriter, mod: FlowMod): void {
  writeFlowModHead(w, mod);
  w.raw(mod.match).raw(mod.instructions);
}

/** Appends the part between the header and the match. */
export function writeFlowModHead(w: ByteWriter, mod: Omit<FlowMod, 'match' | 'instructions'>): void {
  if (mod.cookie === undefined) w.zeros(8);
  else w.u64(mod.cookie);
  if (mod.cookieMask === undefined) w.zeros(8);
  else w.u64(mod.cookieMask);
  w.u8(mod.table)
    .u8(flowCommands.indexOf(mod.command))
    .u16(mod.idleTimeout ?? 0)
    .u16(mod.hardTimeout ?? 0)
    .u16(mod.priority)
    .u32(mod.buffer ?? NO_BUFFER)
    .u32(mod.outPort ?? ofPort.any)
    .u32(mod.outGroup ?? ofGroup.any)
    .u16(mod.flags ?? 0)
    .u16(mod.importance ?? 0);
}

/** @param message a whole flow-mod; @throws SeineError `PROTOCOL` if it is malformed */
export function decodeFlowMod(message: Uint8Array): FlowMod {
  return readFlowModBody(new ByteReader(message, 'flow-mod').skip(8));
}

/** Reads the part after the header. */
export function readFlowModBody(r: ByteReader): FlowMod {
  const [cookie, cookieMask] = [r.u64(), r.u64()];
  const [table, command] = [r.u8(), r.u8()];
  const [idleTimeout, hardTimeout, priority] = [r.u16(), r.u16(), r.u16()];
  const [buffer, outPort, outGroup] = [r.u32(), r.u32(), r.u32()];
  const [flags, importance] = [r.u16(), r.u16()];
  return {
    command: commandNumbered(command),
    table,
    priority,
    cookie,
    cookieMask,
    idleTimeout,
    hardTimeout,
    importance,
    flags,
    outPort,
    outGroup,
    ...(buffer === NO_BUFFER ? {} : { buffer }),
    match: takeMatch(r),
    instructions: r.raw(r.remaining),
  };
}

function commandNumbered(number: number): FlowCommand {
  const command = flowCommands[number];
  if (command === undefined) throw new SeineError('PROTOCOL', `flow-mod command ${number}`);
  return command;
}

/**
 * Reads an `ofp_match` with its padding from the front.
 *
 * @throws SeineError `PROTOCOL` if its length is below 4 or exceeds the rest of the bytes
 */
export function takeMatch(r: ByteReader): Uint8Array {
  const length = r.peekU16(2);
  if (length < 4) throw new SeineError('PROTOCOL', `match length ${length}`);
  return r.raw(length + ((8 - (length % 8)) % 8));
}
