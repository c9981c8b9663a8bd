import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Layout } from '../layout.ts';
import { decodeMatch, type Match, writeMatch } from '../match/match.ts';
import { takeMatch } from './flow-mod.ts';

/** `ofp_match` with its padding, as bytes: flows are compared by these. */
export const matchBytes: Layout<Uint8Array> = { read: (r) => takeMatch(r), write: (w, value) => w.raw(value) };

/** `ofp_match` with its padding, decoded. */
export const matchFields: Layout<Match> = {
  read: (r) => decodeMatch(takeMatch(r)),
  write: (w, value, version) => writeMatch(w, value, version),
};

/** Statistics of a flow, a port or a table. Members that the switch does not report are absent. */
export interface Statistics {
  readonly durationNs?: bigint;
  /** Nanoseconds since a packet last matched. */
  readonly idleNs?: bigint;
  readonly flows?: number;
  readonly packets?: bigint;
  readonly bytes?: bigint;
  /** OXS TLVs without a row, in wire form. */
  readonly unknown?: Uint8Array;
}

const STATS_CLASS = 0x8002;
const BILLION = 1_000_000_000n;

interface Counter {
  readonly name: 'durationNs' | 'idleNs' | 'flows' | 'packets' | 'bytes';
  readonly field: number;
  readonly bytes: 4 | 8;
  readonly isTime?: true;
}

/** In the order in which Open vSwitch writes them. Source: OpenFlow 1.5.1 section 7.2.4.2 "Flow Stats Fields". */
const counters: readonly Counter[] = [
  { name: 'durationNs', field: 0, bytes: 8, isTime: true },
  { name: 'idleNs', field: 1, bytes: 8, isTime: true },
  { name: 'packets', field: 4, bytes: 8 },
  { name: 'bytes', field: 5, bytes: 8 },
  { name: 'flows', field: 3, bytes: 4 },
];

/** Source: OpenFlow 1.5.1 `ofp_stats` (2 zero, u16 length without padding, OXS TLVs, zeros to a multiple of 8). */
export const statistics: Layout<Statistics> = {
  read: (r) => {
    const length = r.peekU16(2);
    if (length < 4) throw new SeineError('PROTOCOL', `statistics of ${length} bytes`);
    const inside = new ByteReader(r.raw(length), 'statistics').skip(4);
    r.skip(Math.min((8 - (length % 8)) % 8, r.remaining));
    const found: Record<string, bigint | number | Uint8Array> = {};
    const unknown: number[] = [];
    while (inside.remaining > 0) readCounter(inside, found, unknown);
    if (unknown.length > 0) found['unknown'] = Uint8Array.from(unknown);
    return found;
  },
  write: (w, value) => {
    const start = w.length;
    w.u16(0).u16(0);
    for (const counter of counters) writeCounter(w, counter, value[counter.name]);
    if (value.unknown !== undefined) w.raw(value.unknown);
    w.patchU16(start + 2, w.length - start).alignTo(8, start);
  },
};

function readCounter(r: ByteReader, found: Record<string, bigint | number | Uint8Array>, unknown: number[]): void {
  const start = r.offset;
  const [kind, field, length] = [r.u16(), r.u8(), r.u8()];
  const row = kind === STATS_CLASS ? counters.find((each) => each.field * 2 === field && each.bytes === length) : undefined;
  if (row === undefined || found[row.name] !== undefined) {
    r.offset = start;
    unknown.push(...r.raw(4 + length));
  } else if (row.isTime) found[row.name] = BigInt(r.u32()) * BILLION + BigInt(r.u32());
  else found[row.name] = length === 4 ? r.u32() : r.u64();
}

function writeCounter(w: ByteWriter, { field, bytes, isTime }: Counter, value: bigint | number | undefined): void {
  if (value === undefined) return;
  w.u16(STATS_CLASS)
    .u8(field * 2)
    .u8(bytes);
  if (isTime) w.u32(Number(BigInt(value) / BILLION)).u32(Number(BigInt(value) % BILLION));
  else if (bytes === 4) w.u32(Number(value));
  else w.u64(BigInt(value));
}

/** Seconds and nanoseconds: the form of durations in OpenFlow 1.3. */
export const duration: Layout<bigint> = {
  read: (r) => BigInt(r.u32()) * BILLION + BigInt(r.u32()),
  write: (w, value) => w.u32(Number(value / BILLION)).u32(Number(value % BILLION)),
};
