import type { ByteWriter } from '../../base/bytes/bytes.ts';
import { type Match, writeMatch } from '../match/match.ts';
import { beginMessage, endMessage, messageType, OPENFLOW_15, type Version } from '../protocol.ts';
import { type FlowMod, writeFlowModHead } from './flow-mod.ts';
import { type Instructions, writeInstructions } from './instructions.ts';

/** A change of the flow table by what it means: nothing of it is encoded yet. `FlowMod` is the same around bytes. */
export interface Flow extends Omit<FlowMod, 'match' | 'instructions'> {
  readonly match: Match;
  readonly does: Instructions;
}

/**
 * Appends one flow-mod, with transaction id 0: the bytes of `writeFlowMod` around what `encodeMatch` and `encodeInstructions`
 * give, but written in one go, without those in between.
 *
 * @throws SeineError `INVARIANT` if a value does not fit, a prerequisite is missing, or the message grows over 64 KiB; what
 *   was written so far then has to be cut off with `truncate`
 */
export function writeFlow(w: ByteWriter, flow: Flow, version: Version = OPENFLOW_15): void {
  const start = beginMessage(w, messageType.flowMod, version);
  writeFlowModHead(w, flow);
  writeMatch(w, flow.match, version);
  writeInstructions(w, flow.does, version);
  endMessage(w, start);
}
