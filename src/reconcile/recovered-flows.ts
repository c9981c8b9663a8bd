import { decodeMatch } from '../openflow/match.ts';
import type { RecoveredFlow } from '../pipeline/recovered-flow.ts';
import { tableName } from '../pipeline/tables.ts';
import { type BridgeKey, type BridgeValue, decodeFlowEntry, isFlowKey, tableOfKey } from './bridge-entry.ts';

/** Flows of the bridge by the registers that they match; those that match none, and those of unknown tables, are left out. */
export function* recoveredFlows(held: ReadonlyMap<BridgeKey, BridgeValue>): Generator<RecoveredFlow> {
  for (const [key, value] of held) {
    const table = isFlowKey(key) ? tableName(tableOfKey(key) ?? -1) : undefined;
    if (!table) continue;
    const { priority, cookie, match } = decodeFlowEntry(key, value);
    const regs = Object.entries(decodeMatch(match)).flatMap(([field, given]) => {
      const [, number] = /^reg(\d+)$/.exec(field) ?? [];
      if (number === undefined) return [];
      if (typeof given === 'number') return [{ reg: Number(number), value: given, mask: 0xffff_ffff }];
      const { value: bits, mask } = given as { readonly value: number; readonly mask: number };
      return [{ reg: Number(number), value: bits, mask }];
    });
    if (regs.length > 0) yield { table, priority, cookie, regs };
  }
}
