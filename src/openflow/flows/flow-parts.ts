import type { TableStats } from '../control.ts';
import type { FlowFilter } from './flow-stats.ts';

/**
 * More flows than these are not asked for at a time: ovs-vswitchd makes all of an answer before it does anything else, and reads nothing more of a
 * connection while a hundred messages wait to be sent on it. For 100,000 flows in one answer that is some 150 ms, in parts some 12 ms each.
 */
const flowsAtOnce = 4_096;

/** Whether it is met by all flows, or by all of one table. */
export function isOfTables({ table: _, ...narrower }: FlowFilter): boolean {
  return Object.values(narrower).every((each) => each === undefined);
}

/**
 * Filters that together are met by each flow that `filter` is met by, and each such flow meets one of them. Those of a table with many are told apart by
 * the end of their cookies, so a part may be larger where many flows have one cookie.
 *
 * @param filter of all tables or one, see `isOfTables`
 */
export function flowParts({ table: only }: FlowFilter, tables: readonly Pick<TableStats, 'table' | 'flows'>[]): readonly FlowFilter[] {
  const asked = tables.filter(({ table, flows }) => flows > 0 && (only === undefined || table === only));
  if (asked.reduce((sum, { flows }) => sum + flows, 0) <= flowsAtOnce) return [only === undefined ? {} : { table: only }];
  return asked.flatMap(partsOfTable);
}

function partsOfTable({ table, flows }: Pick<TableStats, 'table' | 'flows'>): readonly FlowFilter[] {
  if (flows <= flowsAtOnce) return [{ table }];
  const count = 2 ** Math.ceil(Math.log2(flows / flowsAtOnce));
  return Array.from({ length: count }, (_, part) => ({ table, cookie: BigInt(part), cookieMask: BigInt(count - 1) }));
}
