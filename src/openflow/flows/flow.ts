import type { ByteWriter } from '../../base/bytes/bytes.ts';
import { type Match, writeMatch } from '../match/match.ts';
import { beginMessage, endMessage, messageType, OPENFLOW_15, type Version } from '../protocol.ts';
import { type FlowMod, writeFlowModHead } from './flow-mod.ts';
import { type Instructions, writeInstructions } from './instructions.ts';

/** Change of the flow table before encoding. `FlowMod` is its encoded counterpart. */
export interface Flow extends Omit<FlowMod, 'match' | 'instructions'> {
  readonly match: Match;
  readonly does: Instructions;
}

/**
 * Appends one flow-mod, with transaction id 0: the same bytes as `writeFlowMod` with the results of `encodeMatch` and `encodeInstructions`,
 * but written in one pass without intermediate buffers.
 *
 * @throws SeineError `INVARIANT` if a value does not fit, a prerequisite is missing, or the message exceeds 64 KiB; the caller then has to
 *   cut off the partial message with `truncate`
 */
export function writeFlow(w: ByteWriter, flow: Flow, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.flowMod, version);
  writeFlowModHead(w, flow);
  writeMatch(w, flow.match, version);
  writeInstructions(w, flow.does, version);
  endMessage(w, start);
}
