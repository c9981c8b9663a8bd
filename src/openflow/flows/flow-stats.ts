import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { encodeMatch } from '../match/match.ts';
import { multipartType, writeMultipartRequest } from '../multipart.ts';
import { ALL_TABLES, OPENFLOW_13, OPENFLOW_15, ofGroup, ofPort, type Version } from '../protocol.ts';

/** Selects flows for a dump, an aggregate or a monitor. Absent members do not restrict it. */
export interface FlowFilter {
  readonly table?: number;
  readonly cookie?: bigint;
  readonly cookieMask?: bigint;
  readonly outPort?: number;
  readonly outGroup?: number;
  /** Result of `encodeMatch`: selects flows that are at least as specific. */
  readonly match?: Uint8Array;
}

/**
 * One flow of the switch. `match` and `instructions` are views into the message that carried them: copy them to keep them, otherwise they
 * keep up to 64 KiB alive.
 */
export interface FlowStats {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  /** Seconds; 0 for none. */
  readonly idleTimeout: number;
  readonly hardTimeout: number;
  readonly importance: number;
  /** Sum of `flowFlag`s. */
  readonly flags: number;
  /** `ofp_match` with header and padding: equal to the result of `encodeMatch` for an equal match. */
  readonly match: Uint8Array;
  /** Equal to the result of `encodeInstructions` for equal instructions. */
  readonly instructions: Uint8Array;
  readonly packets: bigint;
  readonly bytes: bigint;
  /** Nanoseconds since the flow was added. */
  readonly durationNs: bigint;
}

const anything = encodeMatch({});

function writeFilter(w: ByteWriter, filter: FlowFilter): void {
  w.u8(filter.table ?? ALL_TABLES).zeros(3);
  w.u32(filter.outPort ?? ofPort.any).u32(filter.outGroup ?? ofGroup.any);
  w.zeros(4)
    .u64(filter.cookie ?? 0n)
    .u64(filter.cookieMask ?? 0n)
    .raw(filter.match ?? anything);
}

/** Source: OpenFlow 1.5.1 `ofp_flow_desc_request`, identical to `ofp_flow_stats_request` of 1.3. */
export function writeFlowDescRequest(w: ByteWriter, filter: FlowFilter, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.flowDesc, (body) => writeFilter(body, filter), version);
}

/** Source: OpenFlow 1.5.1 `ofp_aggregate_stats_request`. */
export function writeAggregateRequest(w: ByteWriter, filter: FlowFilter, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.aggregate, (body) => writeFilter(body, filter), version);
}

/** Bytes before the match. */
const ENTRY_HEADER_BYTES = 24;
const ENTRY_HEADER_BYTES_13 = 48;
const STATS_CLASS = 0x8002;
const DURATION = 0;
const FLOW_COUNT = 3;
const PACKET_COUNT = 4;
const BYTE_COUNT = 5;

/**
 * Calls `visit` for each flow in the body of one flow description reply.
 *
 * Source: OpenFlow 1.5.1 `ofp_flow_desc` (u16 length, 2 zero, u8 table, 1 zero, u16 priority, u16 idle, u16 hard, u16 flags,
 * u16 importance, u64 cookie, match, statistics as `ofp_stats`, instructions); OpenFlow 1.3.5 `ofp_flow_stats` (u16 length,
 * u8 table, 1 zero, u32 seconds, u32 nanoseconds, u16 priority, u16 idle, u16 hard, u16 flags, 4 zero, u64 cookie, u64 packets,
 * u64 bytes, match, instructions).
 *
 * @throws SeineError `PROTOCOL` if a length does not fit.
 */
export function visitFlowEntries(body: Uint8Array, visit: (entry: FlowStats) => void, version: Version = OPENFLOW_15): void {
  const view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  const least = version === OPENFLOW_13 ? ENTRY_HEADER_BYTES_13 + 8 : ENTRY_HEADER_BYTES + 8;
  let at = 0;
  while (at < body.length) {
    const length = at + least <= body.length ? view.getUint16(at) : 0;
    if (length < least || at + length > body.length) {
      throw new SeineError('PROTOCOL', `flow entry of ${length} bytes at ${at}, ${body.length - at} left`);
    }
    visit(version === OPENFLOW_13 ? entryIn13At(body, view, at, at + length) : entryAt(body, view, at, at + length));
    at += length;
  }
}

function entryIn13At(body: Uint8Array, view: DataView, start: number, end: number): FlowStats {
  const matchStart = start + ENTRY_HEADER_BYTES_13;
  const instructionsStart = matchStart + paddedAt(view, matchStart, end);
  return {
    table: view.getUint8(start + 2),
    priority: view.getUint16(start + 12),
    idleTimeout: view.getUint16(start + 14),
    hardTimeout: view.getUint16(start + 16),
    flags: view.getUint16(start + 18),
    importance: 0,
    cookie: view.getBigUint64(start + 24),
    match: body.subarray(matchStart, instructionsStart),
    instructions: body.subarray(instructionsStart, end),
    packets: view.getBigUint64(start + 32),
    bytes: view.getBigUint64(start + 40),
    durationNs: BigInt(view.getUint32(start + 4)) * 1_000_000_000n + BigInt(view.getUint32(start + 8)),
  };
}

function entryAt(body: Uint8Array, view: DataView, start: number, end: number): FlowStats {
  const matchStart = start + ENTRY_HEADER_BYTES;
  const statsStart = matchStart + paddedAt(view, matchStart, end);
  const instructionsStart = statsStart + paddedAt(view, statsStart, end);
  const counters = readCounters(view, statsStart + 4, statsStart + view.getUint16(statsStart + 2));
  return {
    table: view.getUint8(start + 4),
    priority: view.getUint16(start + 6),
    idleTimeout: view.getUint16(start + 8),
    hardTimeout: view.getUint16(start + 10),
    flags: view.getUint16(start + 12),
    importance: view.getUint16(start + 14),
    cookie: view.getBigUint64(start + 16),
    match: body.subarray(matchStart, statsStart),
    instructions: body.subarray(instructionsStart, end),
    packets: counters.packets,
    bytes: counters.bytes,
    durationNs: counters.durationNs,
  };
}

/** Returns the padded size of a match or of statistics: both have their length, without padding, at offset 2. */
function paddedAt(view: DataView, at: number, end: number): number {
  const length = at + 4 <= end ? view.getUint16(at + 2) : 0;
  const padded = length + ((8 - (length % 8)) % 8);
  if (length < 4 || at + padded > end)
    throw new SeineError('PROTOCOL', `part of ${length} bytes at ${at} of a flow entry, ${end - at} left`);
  return padded;
}

interface Counters {
  flows: number;
  packets: bigint;
  bytes: bigint;
  durationNs: bigint;
}

/** Source: OpenFlow 1.5.1 section 7.2.4 "OXS": u16 class, u7 field, u1 zero, u8 length, value. */
function readCounters(view: DataView, start: number, end: number): Counters {
  const counters: Counters = { flows: 0, packets: 0n, bytes: 0n, durationNs: 0n };
  let at = start;
  while (at + 4 <= end) {
    const length = view.getUint8(at + 3);
    if (at + 4 + length > end) throw new SeineError('PROTOCOL', `statistic of ${length} bytes at ${at}, ${end - at - 4} left`);
    const field = view.getUint16(at) === STATS_CLASS ? view.getUint8(at + 2) >>> 1 : -1;
    if (length === 8) readWideCounter(counters, view, field, at + 4);
    else if (field === FLOW_COUNT && length === 4) counters.flows = view.getUint32(at + 4);
    at += 4 + length;
  }
  return counters;
}

function readWideCounter(counters: Counters, view: DataView, field: number, at: number): void {
  if (field === PACKET_COUNT) counters.packets = view.getBigUint64(at);
  else if (field === BYTE_COUNT) counters.bytes = view.getBigUint64(at);
  else if (field === DURATION) counters.durationNs = BigInt(view.getUint32(at)) * 1_000_000_000n + BigInt(view.getUint32(at + 4));
}

/** Sums that an aggregate reply reports. */
export interface FlowAggregate {
  readonly flows: number;
  readonly packets: bigint;
  readonly bytes: bigint;
}

/**
 * @param body of an aggregate reply
 *
 * Source: OpenFlow 1.5.1 `ofp_aggregate_stats_reply` (statistics); OpenFlow 1.3.5 the same (u64 packets, u64 bytes, u32 flows, 4 zero).
 *
 * @throws SeineError `PROTOCOL`
 */
export function decodeAggregate(body: Uint8Array, version: Version = OPENFLOW_15): FlowAggregate {
  const r = new ByteReader(body, 'aggregate reply');
  if (version === OPENFLOW_13) return { packets: r.u64(), bytes: r.u64(), flows: r.u32() };
  const { flows, packets, bytes } = decodeCounters(r);
  return { flows, packets, bytes };
}

/** Reads statistics from the front: u16 zero, u16 length, OXS TLVs. Source: OpenFlow 1.5.1 `ofp_stats`. */
export function decodeCounters(r: ByteReader): Readonly<Counters> {
  const length = r.peekU16(2);
  const stats = r.raw(length);
  return readCounters(new DataView(stats.buffer, stats.byteOffset, stats.byteLength), 4, length);
}
