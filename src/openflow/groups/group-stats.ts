import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { multipartType, writeMultipartRequest } from '../multipart.ts';
import { OPENFLOW_15, ofGroup, type Version } from '../protocol.ts';

export interface GroupStats {
  readonly id: number;
  /** Number of flows and groups that use the group. */
  readonly references: number;
  readonly packets: bigint;
  readonly bytes: bigint;
  /** Counters in the order of the buckets. */
  readonly buckets: readonly { readonly packets: bigint; readonly bytes: bigint }[];
}

export function writeGroupStatsRequest(w: ByteWriter, group: number = ofGroup.all, version: Version = OPENFLOW_15): void {
  writeMultipartRequest(w, multipartType.groupStats, (body) => body.u32(group).zeros(4), version);
}

const HEAD_BYTES = 40;

/**
 * @param body of a group statistics reply. Source: OpenFlow 1.5.1 `ofp_group_stats` (u16 length, 2 zero, u32 group, u32 references, 4 zero,
 *   u64 packets, u64 bytes, u32 seconds, u32 nanoseconds, u64 packets and u64 bytes per bucket).
 */
export function decodeGroupStats(body: Uint8Array): GroupStats[] {
  const stats: GroupStats[] = [];
  const all = new ByteReader(body, 'group statistics');
  while (all.remaining > 0) {
    const length = all.peekU16(0);
    if (length < HEAD_BYTES || (length - HEAD_BYTES) % 16 !== 0) throw new SeineError('PROTOCOL', `group statistics of ${length} bytes`);
    const r = new ByteReader(all.raw(length), 'group statistics').skip(4);
    const [id, references] = [r.u32(), r.u32()];
    const [packets, bytes] = [r.skip(4).u64(), r.u64()];
    r.skip(8);
    const buckets = Array.from({ length: (length - HEAD_BYTES) / 16 }, () => ({ packets: r.u64(), bytes: r.u64() }));
    stats.push({ id, references, packets, bytes, buckets });
  }
  return stats;
}
