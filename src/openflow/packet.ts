import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { type Action, type PacketInReason, packetInReasons } from './actions/action.ts';
import { readActions, writeActions } from './actions/actions.ts';
import { takeMatch } from './flows/flow-mod.ts';
import { decodeMatch, decodeOxmFields, type Match, writeMatch, writeOxmFields } from './match/match.ts';
import { eachProperty, writeProperty } from './properties.ts';
import {
  beginMessage,
  beginNicira,
  endMessage,
  HEADER_BYTES,
  messageType,
  NO_BUFFER,
  OPENFLOW_13,
  OPENFLOW_15,
  readHeader,
  type Version,
} from './protocol.ts';

export interface PacketOut {
  /** Pipeline fields of the packet. `in_port` is required: `ofPort.controller` if there is none. */
  readonly fields: Match;
  readonly actions: readonly Action[];
  /** Packet buffered by the switch, instead of `data`. Open vSwitch buffers none. */
  readonly buffer?: number;
  readonly data: Uint8Array;
}

/**
 * Appends one message.
 *
 * Source: OpenFlow 1.5.1 `ofp_packet_out` (u32 buffer, u16 length of actions, 2 zero, match, actions, packet).
 */
export function writePacketOut(w: ByteWriter, out: PacketOut, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.packetOut, version);
  writePacketOutBody(w, out, version);
  endMessage(w, start);
}

/** Appends the part after the header. Source, too: OpenFlow 1.3.5 `ofp_packet_out`: u32 in-port, u16 length, 6 zero, actions, packet. */
export function writePacketOutBody(w: ByteWriter, out: PacketOut, version: Version): void {
  w.u32(out.buffer ?? NO_BUFFER);
  if (version === OPENFLOW_13) w.u32(inPortAlone(out.fields));
  const lengthAt = w.length;
  if (version === OPENFLOW_13) w.zeros(8);
  else writeMatch(w.zeros(4), out.fields, version);
  const actionsAt = w.length;
  writeActions(w, out.actions, version);
  w.patchU16(lengthAt, w.length - actionsAt).raw(out.data);
}

/** Returns the in-port. OpenFlow 1.3 carries no other field. */
function inPortAlone({ in_port: port, ...others }: Match): number {
  if (typeof port !== 'number' || Object.keys(others).length > 0)
    throw new SeineError('INVARIANT', 'a packet-out of OpenFlow 1.3 has an in-port and no other field');
  return port;
}

/** @param message a whole packet-out of either version */
export function decodePacketOut(message: Uint8Array): PacketOut {
  const { version } = readHeader(message);
  return readPacketOutBody(new ByteReader(message, 'packet-out').skip(HEADER_BYTES), version === OPENFLOW_13 ? OPENFLOW_13 : OPENFLOW_15);
}

export function readPacketOutBody(r: ByteReader, version: Version): PacketOut {
  const buffer = r.u32();
  const port = version === OPENFLOW_13 ? r.u32() : 0;
  const actionBytes = r.u16();
  const fields: Match = version === OPENFLOW_13 ? { in_port: port } : decodeMatch(takeMatch(r.skip(2)));
  if (version === OPENFLOW_13) r.skip(6);
  const actions = readActions(new ByteReader(r.raw(actionBytes), 'packet-out actions'), version);
  return { fields, actions, ...(buffer === NO_BUFFER ? {} : { buffer }), data: r.raw(r.remaining) };
}

/** Packet that the switch sent to us. */
export interface PacketIn {
  readonly table: number;
  /** Cookie of the flow that sent it; absent if the switch does not report it, as for a packet that waits to be resumed. */
  readonly cookie?: bigint;
  readonly reason: PacketInReason;
  /** Pipeline fields at that time: in-port, registers, metadata, tunnel. */
  readonly fields: Match;
  /** Userdata of the `controller` action. */
  readonly userdata?: Uint8Array;
  /** Set if the switch waits for `writeResume`; opaque. */
  readonly continuation?: Uint8Array;
  /** Length of the packet in bytes; `data` may be shorter. */
  readonly fullLength: number;
  readonly data: Uint8Array;
}

/**
 * Source: OpenFlow 1.5.1 `ofp_packet_in` (u32 buffer, u16 total length, u8 reason, u8 table, u64 cookie, match, 2 zero,
 * packet).
 */
export function decodePacketIn(message: Uint8Array): PacketIn {
  const r = new ByteReader(message, 'packet-in').skip(HEADER_BYTES + 4);
  const [fullLength, reason, table, cookie] = [r.u16(), r.u8(), r.u8(), r.u64()];
  const fields = decodeMatch(takeMatch(r));
  return {
    table,
    ...(cookie === NO_COOKIE ? {} : { cookie }),
    reason: reasonNumbered(reason),
    fields,
    fullLength,
    data: r.skip(2).raw(r.remaining),
  };
}

const NO_COOKIE = 0xffff_ffff_ffff_ffffn;

const PACKET = 0;
const FULL_LENGTH = 1;
const TABLE = 3;
const COOKIE = 4;
const REASON = 5;
const METADATA = 6;
const USERDATA = 7;
const CONTINUATION = 8;

export const NXT_PACKET_IN2 = 30;
const NXT_RESUME = 28;
const NICIRA_HEADER_BYTES = HEADER_BYTES + 8;

/** Source: Open vSwitch `NXT_PACKET_IN2`: properties (`nx_packet_in2_prop_type`). */
export function decodePacketIn2(message: Uint8Array): PacketIn {
  const found: WritablePacketIn = { table: 0, reason: 'noMatch', fields: {}, fullLength: 0, data: new Uint8Array(0) };
  eachProperty(new ByteReader(message, 'packet-in').skip(NICIRA_HEADER_BYTES), (type, body) => readPacketInProperty(found, type, body));
  if (found.fullLength === 0) found.fullLength = found.data.length;
  return found;
}

type WritablePacketIn = { -readonly [Key in keyof PacketIn]: PacketIn[Key] };

/** Sets the member of a property. */
function readPacketInProperty(found: WritablePacketIn, type: number, r: ByteReader): void {
  switch (type) {
    case PACKET:
      found.data = r.raw(r.remaining);
      break;
    case FULL_LENGTH:
      found.fullLength = r.u32();
      break;
    case TABLE:
      found.table = r.u8();
      break;
    case COOKIE:
      found.cookie = r.skip(4).u64();
      break;
    case REASON:
      found.reason = reasonNumbered(r.u8());
      break;
    case METADATA:
      found.fields = decodeOxmFields(r.raw(r.remaining));
      break;
    case USERDATA:
      found.userdata = r.raw(r.remaining).slice();
      break;
    case CONTINUATION:
      found.continuation = r.raw(r.remaining).slice();
      break;
    default:
      break; // of a later Open vSwitch
  }
}

/** Resumes a packet that a `controller` action with `pause` stopped. Source: Open vSwitch `NXT_RESUME`. */
export function writeResume(w: ByteWriter, packet: PacketIn, version: Version = OPENFLOW_15): void {
  const { continuation } = packet;
  if (continuation === undefined) throw new SeineError('INVARIANT', 'a packet without continuation cannot be resumed');
  const start = beginNicira(w, NXT_RESUME, version);
  writeProperty(w, PACKET, () => w.raw(packet.data));
  writeProperty(w, METADATA, () => writeOxmFields(w, packet.fields, version));
  writeProperty(w, CONTINUATION, () => w.raw(continuation));
  endMessage(w, start);
}

function reasonNumbered(number: number): PacketInReason {
  const reason = packetInReasons[number];
  if (reason === undefined) throw new SeineError('PROTOCOL', `packet-in reason ${number}`);
  return reason;
}
