import { ByteReader, type ByteWriter } from '../base/bytes/bytes.ts';
import { multipartType, writeMultipartRequest } from './multipart.ts';

/**
 * Meter features of a switch. Bits of `bands`: 1 << `OFPMBT_*` (1 drop, 2 DSCP remark); of `capabilities`: `OFPMF_*` (kbit/s 1, packets/s
 * 2, burst 4, statistics 8).
 */
export interface MeterFeatures {
  readonly maxMeters: number;
  readonly maxBands: number;
  readonly bands: number;
  readonly capabilities: number;
}

/** Group features of a switch. Bits of `types`: 1 << `OFPGT_*` (all 0, select 1, indirect 2, fast failover 3). */
export interface GroupFeatures {
  readonly types: number;
  readonly maxSelectGroups: number;
}

export function writeMeterFeaturesRequest(w: ByteWriter): void {
  writeMultipartRequest(w, multipartType.meterFeatures, () => undefined);
}

/**
 * Source: OpenFlow 1.5.1 `ofp_meter_features`: u32 meters, u32 band types, u32 capabilities, u8 bands, u8 colors, …
 *
 * @throws SeineError `PROTOCOL` if it is too short
 */
export function decodeMeterFeatures(body: Uint8Array): MeterFeatures[] {
  const r = new ByteReader(body, 'meter features');
  const [maxMeters, bands, capabilities] = [r.u32(), r.u32(), r.u32()];
  return [{ maxMeters, bands, capabilities, maxBands: r.u8() }];
}

export function writeGroupFeaturesRequest(w: ByteWriter): void {
  writeMultipartRequest(w, multipartType.groupFeatures, () => undefined);
}

/**
 * Source: OpenFlow 1.5.1 `ofp_group_features`: u32 types, u32 capabilities, u32 greatest number of groups of each of four types, …
 *
 * @throws SeineError `PROTOCOL` if it is too short
 */
export function decodeGroupFeatures(body: Uint8Array): GroupFeatures[] {
  const r = new ByteReader(body, 'group features');
  const types = r.u32();
  return [{ types, maxSelectGroups: r.skip(8).u32() }];
}
