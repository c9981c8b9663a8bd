import { type FlowMod, flowFlag } from '../flows/flow-mod.ts';
import type { Instructions } from '../flows/instructions.ts';
import { encodeInstructions } from '../flows/instructions.ts';
import { encodeMatch, type Match } from '../match/match.ts';
import { OPENFLOW_15, type Version } from '../protocol.ts';
import { parseInstructions } from './parse-action.ts';
import { parseMatch } from './parse-match.ts';
import { parsePort, parseTable, type TextNumbers } from './parse-value.ts';
import { cutAt, parseBigint, parseNumber, splitTop } from './scan.ts';

/** Flow parsed from text; parts that were not written are absent, except table 0 and the default priority. */
export type ParsedFlow = Omit<FlowMod, 'command' | 'match' | 'instructions'> & { readonly match: Match; readonly does: Instructions };

const DEFAULT_PRIORITY = 0x8000;

const flags: Readonly<Record<string, number>> = {
  send_flow_rem: flowFlag.sendFlowRemoved,
  check_overlap: flowFlag.checkOverlap,
  reset_counts: flowFlag.resetCounts,
  no_packet_counts: flowFlag.noPacketCounts,
  no_byte_counts: flowFlag.noByteCounts,
};

/** Statistics in the dump of a flow. */
const statistics: ReadonlySet<string> = new Set(['duration', 'n_packets', 'n_bytes', 'idle_age', 'hard_age']);

/**
 * Reads one flow of ovs-ofctl(8) "Flow Syntax", as `add-flow` takes it or `dump-flows` prints it.
 *
 * @throws SeineError `INVALID_INPUT` that quotes what was not understood
 */
export function parseFlow(text: string, numbers: TextNumbers = {}): ParsedFlow {
  const { before, after } = cutAt(text, 'actions=');
  let flow: Omit<ParsedFlow, 'match' | 'does'> = { table: 0, priority: DEFAULT_PRIORITY };
  const matchParts: string[] = [];
  for (const part of splitTop(before, ', \t')) {
    const option = parseOption(part, numbers);
    if (option === undefined) matchParts.push(part);
    else flow = { ...flow, ...option, flags: (flow.flags ?? 0) + (option.flags ?? 0) };
  }
  const match = parseMatch(matchParts, numbers);
  return { ...flow, match, does: after === undefined ? {} : parseInstructions(after, match, numbers) };
}

/** Encodes the match and instructions of a parsed flow. */
export function encodeParsedFlow(
  { does, match, ...rest }: ParsedFlow,
  command: FlowMod['command'],
  version: Version = OPENFLOW_15,
): FlowMod {
  return { ...rest, command, match: encodeMatch(match, version), instructions: encodeInstructions(does, version) };
}

function parseOption(part: string, numbers: TextNumbers): Partial<ParsedFlow> | undefined {
  const flag = flags[part];
  if (flag !== undefined) return { flags: flag };
  const { before, after = '' } = cutAt(part, '=');
  if (statistics.has(before)) return {};
  switch (before) {
    case 'table':
      return { table: parseTable(after, numbers) };
    case 'priority':
      return { priority: parseNumber(after, 0xffff, before) };
    case 'cookie':
      return parseCookie(after);
    case 'idle_timeout':
      return { idleTimeout: parseNumber(after, 0xffff, before) };
    case 'hard_timeout':
      return { hardTimeout: parseNumber(after, 0xffff, before) };
    case 'importance':
      return { importance: parseNumber(after, 0xffff, before) };
    case 'out_port':
      return { outPort: parsePort(after, numbers) };
    case 'out_group':
      return { outGroup: parseNumber(after, 0xffff_ffff, before) };
    default:
      return undefined;
  }
}

/** A mask of `-1` is all ones. */
function parseCookie(text: string): Partial<ParsedFlow> {
  const { before, after } = cutAt(text, '/');
  const all = 0xffff_ffff_ffff_ffffn;
  const cookie = parseBigint(before, 64, 'cookie');
  return after === undefined ? { cookie } : { cookie, cookieMask: after === '-1' ? all : parseBigint(after, 64, 'cookie mask') };
}
