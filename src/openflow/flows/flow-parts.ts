import type { TableStats } from '../control.ts';
import type { FlowFilter } from './flow-stats.ts';

/**
 * Maximum number of flows to request at a time: ovs-vswitchd builds the whole answer before it does anything else, and reads nothing more
 * from a connection while a hundred messages are queued to be sent on it. One answer with 100,000 flows takes about 150 ms, chunks take
 * about 12 ms each.
 */
const flowsAtOnce = 4_096;

/** Reports whether the filter matches all flows, or all of one table. */
export function isOfTables({ table: _, ...narrower }: FlowFilter): boolean {
  return Object.values(narrower).every((each) => each === undefined);
}

/**
 * Splits a filter: each flow that `filter` matches is matched by exactly one of the filters returned. Tables with many flows are split by
 * the low bits of the cookies, so a chunk may be larger if many flows have the same cookie.
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
