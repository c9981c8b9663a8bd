import { ByteReader } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { HEADER_BYTES, OPENFLOW_13, readHeader } from '../protocol.ts';
import { takeMatch } from './flow-mod.ts';
import { decodeCounters } from './flow-stats.ts';

/** Source: OpenFlow 1.5.1 `ofp_flow_removed_reason`; the last one is specific to Open vSwitch. */
export const flowRemovedReasons = ['idleTimeout', 'hardTimeout', 'delete', 'groupDelete', 'meterDelete', 'eviction'] as const;
export type FlowRemovedReason = (typeof flowRemovedReasons)[number];

export interface FlowRemoved {
  readonly table: number;
  readonly priority: number;
  readonly cookie: bigint;
  readonly reason: FlowRemovedReason;
  readonly match: Uint8Array;
  readonly packets: bigint;
  readonly bytes: bigint;
  readonly durationNs: bigint;
}

/**
 * Source: OpenFlow 1.5.1 `ofp_flow_removed` (u8 table, u8 reason, u16 priority, u16 idle, u16 hard, u64 cookie, match,
 * statistics).
 *
 * @param message a whole flow-removed message, of either version
 */
export function decodeFlowRemoved(message: Uint8Array): FlowRemoved {
  const r = new ByteReader(message, 'flow removed').skip(HEADER_BYTES);
  if (readHeader(message).version === OPENFLOW_13) return readIn13(r);
  const [table, number, priority] = [r.u8(), r.u8(), r.u16()];
  const cookie = r.skip(4).u64();
  const match = takeMatch(r);
  const { packets, bytes, durationNs } = decodeCounters(r);
  return { table, priority, cookie, reason: reasonNumbered(number), match, packets, bytes, durationNs };
}

/**
 * Source: OpenFlow 1.3.5 `ofp_flow_removed` (u64 cookie, u16 priority, u8 reason, u8 table, u32 seconds, u32 nanoseconds, u16 idle,
 * u16 hard, u64 packets, u64 bytes, match).
 */
function readIn13(r: ByteReader): FlowRemoved {
  const [cookie, priority, number, table] = [r.u64(), r.u16(), r.u8(), r.u8()];
  const durationNs = BigInt(r.u32()) * 1_000_000_000n + BigInt(r.u32());
  const [packets, bytes] = [r.skip(4).u64(), r.u64()];
  return { table, priority, cookie, reason: reasonNumbered(number), match: takeMatch(r), packets, bytes, durationNs };
}

function reasonNumbered(number: number): FlowRemovedReason {
  const reason = flowRemovedReasons[number];
  if (reason === undefined) throw new SeineError('PROTOCOL', `flow removed for reason ${number}`);
  return reason;
}
