import type { Action } from '../openflow/action.ts';
import { decodeInstructions } from '../openflow/instructions.ts';
import { decodeMatch } from '../openflow/match.ts';
import type { RecoveredFlow } from '../pipeline/recovered-flow.ts';
import { tableName } from '../pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, decodeFlowEntry, isFlowKey, tableOfKey } from './bridge-entry.ts';

type RegisterBits = RecoveredFlow['regs'][number];

/** Flows of the bridge by the registers that they match and load; those that do neither, and those of unknown tables, are left out. */
export function* recoveredFlows(held: ReadonlyMap<BridgeKey, BridgeValue>): Generator<RecoveredFlow> {
  for (const [key, value] of held) {
    const table = isFlowKey(key) ? tableName(tableOfKey(key) ?? -1) : undefined;
    if (!table) continue;
    const { priority, cookie, match, instructions } = decodeFlowEntry(key, value);
    const regs = Object.entries(decodeMatch(match)).flatMap(([field, given]) => {
      const reg = registerOf(field);
      if (reg === undefined) return [];
      if (typeof given === 'number') return [{ reg, value: given, mask: wholeRegister }];
      const { value: bits, mask } = given as { readonly value: number; readonly mask: number };
      return [{ reg, value: bits, mask }];
    });
    const loads = (decodeInstructions(instructions).apply ?? []).flatMap(loadedBy);
    if (regs.length > 0 || loads.length > 0) yield { table, priority, cookie, regs, loads };
  }
}

const wholeRegister = 0xffff_ffff;

function registerOf(field: string): number | undefined {
  const [, number] = /^reg(\d+)$/.exec(field) ?? [];
  return number === undefined ? undefined : Number(number);
}

/** A switch that was asked in OpenFlow 1.3 says `load` where a mask is. */
function loadedBy(action: Action): readonly RegisterBits[] {
  if (action.kind !== 'setField' && action.kind !== 'load') return [];
  const reg = registerOf(action.kind === 'load' ? action.to.field : action.field);
  if (reg === undefined || typeof action.value === 'object') return [];
  if (action.kind === 'setField') return [{ reg, value: Number(action.value), mask: Number(action.mask ?? wholeRegister) }];
  const { offset, bits } = action.to;
  return [{ reg, value: Number(action.value) * 2 ** offset, mask: (2 ** bits - 1) * 2 ** offset }];
}
