import { addressBits, cidrOf, type Family, ipFromValue } from '../../../base/net/ip.ts';
import type { Action } from '../../../openflow/actions/action.ts';
import { decodeInstructions } from '../../../openflow/flows/instructions.ts';
import { decodeMatch, type Match } from '../../../openflow/match/match.ts';
import { isMasked, type Masked } from '../../../openflow/match/oxm.ts';
import type { RecoveredFlow } from '../../pipeline/recovered-flow.ts';
import { type PipelineTableName, tableName } from '../../pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, decodeFlowEntry, isFlowKey, tableOfKey } from './bridge-entry.ts';
import { etherTypes } from './encoding/openflow-words.ts';

type RegisterBits = RecoveredFlow['regs'][number];

/** Flows of these tables with the registers that they match and load; flows that do neither are left out. */
export function* recoveredFlows(
  held: ReadonlyMap<BridgeKey, BridgeValue>,
  tables: ReadonlySet<PipelineTableName>,
): Generator<RecoveredFlow> {
  for (const [key, value] of held) {
    const table = isFlowKey(key) ? tableName(tableOfKey(key) ?? -1) : undefined;
    if (!table || !tables.has(table)) continue;
    const { priority, cookie, match, instructions } = decodeFlowEntry(key, value);
    const matched = decodeMatch(match);
    const regs = Object.entries(matched).flatMap(([field, given]) => {
      const reg = registerOf(field);
      if (reg === undefined) return [];
      if (typeof given === 'number') return [{ reg, value: given, mask: wholeRegister }];
      const { value: bits, mask } = given as { readonly value: number; readonly mask: number };
      return [{ reg, value: bits, mask }];
    });
    const loads = (decodeInstructions(instructions).apply ?? []).flatMap(loadedBy);
    if (regs.length === 0 && loads.length === 0) continue;
    const [inPort, network] = [matched.in_port, networkOf(matched)];
    yield { table, priority, cookie, regs, loads, ...(typeof inPort === 'number' && { inPort }), ...(network && { network }) };
  }
}

type AddressValue = number | bigint;

/** Returns the source or destination: no flow of Seine's matches both. Undefined: the flow is not for IP. */
function networkOf({ eth_type, ip_src, ip_dst, ipv6_src, ipv6_dst }: Match): string | undefined {
  if (eth_type === etherTypes.ipv4) return networkText('ipv4', ip_src ?? ip_dst ?? everywhere);
  return eth_type === etherTypes.ipv6 ? networkText('ipv6', ipv6_src ?? ipv6_dst ?? everywhere) : undefined;
}

const everywhere = { value: 0, mask: 0 };

/** @param given value, with a prefix mask if any: Seine writes no other masks */
function networkText(family: Family, given: AddressValue | Masked<AddressValue>): string {
  const { value, mask } = isMasked(given) ? given : { value: given, mask: undefined };
  const length = mask === undefined ? addressBits(family) : mask.toString(2).replaceAll('0', '').length;
  return cidrOf(ipFromValue(family, BigInt(value)), length).text;
}

const wholeRegister = 0xffff_ffff;

function registerOf(field: string): number | undefined {
  const [, number] = /^reg(\d+)$/.exec(field) ?? [];
  return number === undefined ? undefined : Number(number);
}

/** Returns the register bits that an action loads. OVS reports `load` for a masked set when queried with OpenFlow 1.3. */
function loadedBy(action: Action): readonly RegisterBits[] {
  if (action.kind !== 'setField' && action.kind !== 'load') return [];
  const reg = registerOf(action.kind === 'load' ? action.to.field : action.field);
  if (reg === undefined || typeof action.value === 'object') return [];
  if (action.kind === 'setField') return [{ reg, value: Number(action.value), mask: Number(action.mask ?? wholeRegister) }];
  const { offset, bits } = action.to;
  return [{ reg, value: Number(action.value) * 2 ** offset, mask: (2 ** bits - 1) * 2 ** offset }];
}
