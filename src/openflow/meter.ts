import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { multipartType, writeMultipartRequest } from './multipart.ts';
import { beginMessage, endMessage, HEADER_BYTES, messageType, OPENFLOW_15, type Version } from './protocol.ts';

/** Source: OpenFlow 1.5.1 `ofp_meter_mod_command`. */
export const meterCommands = ['add', 'modify', 'delete'] as const;

/** Source: OpenFlow 1.5.1 `ofp_meter_flags`. Values are added up; exactly one of the first two. */
export const meterFlag = { kilobits: 1, packets: 2, burst: 4, stats: 8 } as const;

/** Every meter. Source: OpenFlow 1.5.1 `ofp_meter`. */
export const ALL_METERS = 0xffff_ffff;

export type MeterBand =
  /** `rate` and `burst` in kilobits or packets (per second), as the meter's flags say. */
  | { readonly kind: 'drop'; readonly rate: number; readonly burst: number }
  | { readonly kind: 'dscpRemark'; readonly rate: number; readonly burst: number; readonly precedenceLevels: number };

export interface Meter {
  readonly id: number;
  readonly flags: number;
  readonly bands: readonly MeterBand[];
}

export interface MeterMod extends Meter {
  readonly command: (typeof meterCommands)[number];
}

const DROP = 1;
const DSCP_REMARK = 2;
const BAND_BYTES = 16;

/**
 * Appends one message.
 *
 * Source: OpenFlow 1.5.1 `ofp_meter_mod` (u16 command, u16 flags, u32 meter, bands), `ofp_meter_band_header` (u16 type, u16 length, u32
 * rate, u32 burst, 4 bytes specific to the band).
 */
export function writeMeterMod(w: ByteWriter, mod: MeterMod, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.meterMod, version);
  w.u16(meterCommands.indexOf(mod.command)).u16(mod.flags).u32(mod.id);
  writeBands(w, mod.bands);
  endMessage(w, start);
}

export function writeBands(w: ByteWriter, bands: readonly MeterBand[]): void {
  for (const band of bands) {
    w.u16(band.kind === 'drop' ? DROP : DSCP_REMARK)
      .u16(BAND_BYTES)
      .u32(band.rate)
      .u32(band.burst);
    w.u8(band.kind === 'drop' ? 0 : band.precedenceLevels).zeros(3);
  }
}

export function decodeMeterMod(message: Uint8Array): MeterMod {
  const r = new ByteReader(message, 'meter-mod').skip(HEADER_BYTES);
  const number = r.u16();
  const command = meterCommands[number];
  if (command === undefined) throw new SeineError('PROTOCOL', `meter-mod command ${number}`);
  return { command, flags: r.u16(), id: r.u32(), bands: readBands(r) };
}

export function writeMeterDescRequest(w: ByteWriter, meter: number = ALL_METERS, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.meterDesc, (body) => body.u32(meter).zeros(4), version);
}

/** @param body of a meter description reply. Source: OpenFlow 1.5.1 `ofp_meter_desc` (u16 length, u16 flags, u32 meter, bands). */
export function decodeMeters(body: Uint8Array): Meter[] {
  const meters: Meter[] = [];
  const all = new ByteReader(body, 'meter descriptions');
  while (all.remaining > 0) {
    const length = all.peekU16(0);
    if (length < 8) throw new SeineError('PROTOCOL', `meter description of ${length} bytes`);
    const r = new ByteReader(all.raw(length), 'meter description').skip(2);
    const [flags, id] = [r.u16(), r.u32()];
    meters.push({ id, flags, bands: readBands(r) });
  }
  return meters;
}

/** Statistics of a meter since it was created. */
export interface MeterStats {
  readonly id: number;
  readonly packets: bigint;
  /** Packets that each band was applied to, by index of the band. */
  readonly bands: readonly { readonly packets: bigint }[];
}

export function writeMeterStatsRequest(w: ByteWriter, meter: number = ALL_METERS, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.meterStats, (body) => body.u32(meter).zeros(4), version);
}

const STATS_BYTES = 40;

/**
 * @param body of a meter statistics reply. Source: OpenFlow 1.5.1 `ofp_meter_stats` (u32 meter, u16 length, 6 zero, u32 flows, u64 packets,
 *   u64 bytes, u32 seconds, u32 nanoseconds, bands), `ofp_meter_band_stats` (u64 packets, u64 bytes)
 */
export function decodeMeterStats(body: Uint8Array): MeterStats[] {
  const stats: MeterStats[] = [];
  const all = new ByteReader(body, 'meter statistics');
  while (all.remaining > 0) {
    const length = all.peekU16(4);
    if (length < STATS_BYTES) throw new SeineError('PROTOCOL', `meter statistics of ${length} bytes`);
    const r = new ByteReader(all.raw(length), 'meter statistics');
    const id = r.u32();
    const packets = r.skip(12).u64();
    const bands: { packets: bigint }[] = [];
    for (r.skip(16); r.remaining > 0; r.skip(8)) bands.push({ packets: r.u64() });
    stats.push({ id, packets, bands });
  }
  return stats;
}

/** Reads bands to the end. @throws SeineError `PROTOCOL` for a band of a kind that no version defines */
export function readBands(r: ByteReader): MeterBand[] {
  const bands: MeterBand[] = [];
  while (r.remaining > 0) {
    const [type, length] = [r.u16(), r.u16()];
    if (length !== BAND_BYTES || (type !== DROP && type !== DSCP_REMARK))
      throw new SeineError('PROTOCOL', `meter band of type ${type} and length ${length}`);
    const [rate, burst, precedenceLevels] = [r.u32(), r.u32(), r.u8()];
    r.skip(3);
    bands.push(type === DROP ? { kind: 'drop', rate, burst } : { kind: 'dscpRemark', rate, burst, precedenceLevels });
  }
  return bands;
}
