import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { encodeMatch } from '../match/match.ts';
import { multipartType, writeMultipartRequest } from '../multipart.ts';
import { ALL_TABLES, ofGroup, ofPort } from '../protocol.ts';
import { takeMatch } from './flow-mod.ts';
import { type FlowRemovedReason, flowRemovedReasons } from './flow-removed.ts';

/** Changes to report; a sum of flags. Source: OpenFlow 1.5.1 `ofp_flow_monitor_flags`. */
export const monitorFlag = { initial: 1, add: 2, removed: 4, modify: 8, instructions: 16, noAbbreviation: 32, onlyOwn: 64 } as const;

export interface FlowMonitor {
  /** Identifier, unique on its connection. */
  readonly id: number;
  readonly flags: number;
  readonly table?: number;
  readonly match?: Uint8Array;
}

const anything = encodeMatch({});
const ADD = 0;

/**
 * Appends a request that makes the switch report changes in its flow tables until the connection ends. The answer contains the existing
 * flows (with `initial`); changes arrive later as unsolicited multipart replies.
 *
 * Source: OpenFlow 1.5.1 `ofp_flow_monitor_request` (u32 monitor, u32 out port, u32 out group, u16 flags, u8 table, u8 command, match).
 */
export function writeFlowMonitorRequest(w: ByteWriter, monitor: FlowMonitor): void {
  writeMultipartRequest(w, multipartType.flowMonitor, (body) => {
    body.u32(monitor.id).u32(ofPort.any).u32(ofGroup.any).u16(monitor.flags);
    body
      .u8(monitor.table ?? ALL_TABLES)
      .u8(ADD)
      .raw(monitor.match ?? anything);
  });
}

/**
 * - `abbreviated`: a change that this connection made, by transaction id
 * - `paused`: the switch stops reporting because the controller reads too slowly; after `resumed` the tables must be read again
 */
export type FlowUpdate =
  | {
      readonly event: 'initial' | 'added' | 'removed' | 'modified';
      readonly table: number;
      readonly priority: number;
      readonly cookie: bigint;
      readonly idleTimeout: number;
      readonly hardTimeout: number;
      /** Set for `removed`. */
      readonly reason?: FlowRemovedReason;
      readonly match: Uint8Array;
      /** Empty unless requested with `monitorFlag.instructions`. */
      readonly instructions: Uint8Array;
    }
  | { readonly event: 'abbreviated'; readonly xid: number }
  | { readonly event: 'paused' | 'resumed' };

const fullEvents = ['initial', 'added', 'removed', 'modified'] as const;
const ABBREVIATED = 4;
const PAUSED = 5;
const RESUMED = 6;

/**
 * Decodes the updates in the body of one flow monitor reply. Their bytes are views into it.
 *
 * Source: OpenFlow 1.5.1 `ofp_flow_update_full` (u16 length, u16 event, u8 table, u8 reason, u16 idle, u16 hard, u16 priority, 4 zero, u64
 * cookie, match, instructions).
 *
 * @throws SeineError `PROTOCOL` if it is malformed
 */
export function decodeFlowUpdates(body: Uint8Array): FlowUpdate[] {
  const updates: FlowUpdate[] = [];
  const r = new ByteReader(body, 'flow updates');
  while (r.remaining > 0) {
    const length = r.peekU16(0);
    if (length < 8) throw new SeineError('PROTOCOL', `flow update of ${length} bytes`);
    updates.push(readUpdate(new ByteReader(r.raw(length), 'flow update').skip(2)));
  }
  return updates;
}

function readUpdate(r: ByteReader): FlowUpdate {
  const number = r.u16();
  if (number === ABBREVIATED) return { event: 'abbreviated', xid: r.u32() };
  if (number === PAUSED) return { event: 'paused' };
  if (number === RESUMED) return { event: 'resumed' };
  const event = fullEvents[number];
  if (event === undefined) throw new SeineError('PROTOCOL', `flow update event ${number}`);
  const [table, reasonNumber] = [r.u8(), r.u8()];
  const [idleTimeout, hardTimeout, priority] = [r.u16(), r.u16(), r.u16()];
  const cookie = r.skip(4).u64();
  const match = takeMatch(r);
  const reason = event === 'removed' ? flowRemovedReasons[reasonNumber] : undefined;
  const head = { event, table, priority, cookie, idleTimeout, hardTimeout, ...(reason === undefined ? {} : { reason }) };
  return { ...head, match, instructions: r.raw(r.remaining) };
}
