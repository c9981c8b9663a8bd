import { flowFlag } from '../flows/flow-mod.ts';
import type { FlowStats } from '../flows/flow-stats.ts';
import { decodeInstructions } from '../flows/instructions.ts';
import { decodeMatch } from '../match/match.ts';
import { OPENFLOW_15, type Version } from '../protocol.ts';
import { printInstructions } from './action-text.ts';
import { printMatch } from './match-text.ts';
import { printTable, type TextNames } from './value-text.ts';

export const flagWords = [
  [flowFlag.sendFlowRemoved, 'send_flow_rem'],
  [flowFlag.checkOverlap, 'check_overlap'],
  [flowFlag.resetCounts, 'reset_counts'],
  [flowFlag.noPacketCounts, 'no_packet_counts'],
  [flowFlag.noByteCounts, 'no_byte_counts'],
] as const;

/** Parts of a flow that identify and define it, without statistics. */
export type FlowIdentity = Pick<
  FlowStats,
  'table' | 'priority' | 'cookie' | 'idleTimeout' | 'hardTimeout' | 'importance' | 'flags' | 'match' | 'instructions'
>;

/**
 * Prints a flow like a line of `ovs-ofctl --no-stats dump-flows`, without the leading space.
 *
 * @throws SeineError `PROTOCOL` if the match or the instructions are malformed
 */
export function printFlow(flow: FlowIdentity, names: TextNames = {}, version: Version = OPENFLOW_15): string {
  const parts: string[] = [];
  if (flow.cookie !== 0n) parts.push(`cookie=0x${flow.cookie.toString(16)}`);
  if (flow.table !== 0 || names.table !== undefined) parts.push(`table=${printTable(flow.table, names)}`);
  if (flow.idleTimeout !== 0) parts.push(`idle_timeout=${flow.idleTimeout}`);
  if (flow.hardTimeout !== 0) parts.push(`hard_timeout=${flow.hardTimeout}`);
  const flags = flagWords.filter(([flag]) => (flow.flags & flag) !== 0).map(([, word]) => word);
  if (flags.length > 0) parts.push(flags.join(' '));
  if (flow.importance !== 0) parts.push(`importance=${flow.importance}`);
  const matched = printMatch(decodeMatch(flow.match), names);
  if (flow.priority !== 0x8000) matched.unshift(`priority=${flow.priority}`);
  if (matched.length > 0) parts.push(matched.join(','));
  const actions = `actions=${printInstructions(decodeInstructions(flow.instructions, version), names)}`;
  return parts.length === 0 ? actions : `${parts.join(', ')} ${actions}`;
}
