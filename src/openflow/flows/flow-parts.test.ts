import fc from 'fast-check';
import { expect, it } from 'vitest';
import { flowParts, isOfTables } from './flow-parts.ts';
import type { FlowFilter } from './flow-stats.ts';

const tables = fc.uniqueArray(fc.record({ table: fc.integer({ min: 0, max: 253 }), flows: fc.oneof(fc.nat(3), fc.nat(300_000)) }), {
  selector: ({ table }) => table,
});

function meets(flow: { readonly table: number; readonly cookie: bigint }, { table, cookie = 0n, cookieMask = 0n }: FlowFilter): boolean {
  return (table === undefined || flow.table === table) && (flow.cookie & cookieMask) === (cookie & cookieMask);
}

const anyTable = fc.option(fc.integer({ min: 0, max: 253 }), { nil: undefined });

it('requests each flow in one part, and no other', () => {
  fc.assert(
    fc.property(tables, anyTable, fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }), (held, only, cookie) => {
      const filter = only === undefined ? {} : { table: only };
      const parts = flowParts(filter, held);
      for (const { table, flows } of held) {
        const found = parts.filter((part) => meets({ table, cookie }, part));
        if (flows > 0) expect(found).toHaveLength(meets({ table, cookie }, filter) ? 1 : 0);
      }
    }),
  );
});

it('requests at most the number of flows that ovs-vswitchd sends in some milliseconds, for evenly distributed cookies', () => {
  fc.assert(
    fc.property(tables, (held) => {
      const flowsOf = new Map(held.map(({ table, flows }) => [table, flows]));
      for (const { table, cookieMask = 0n } of flowParts({}, held)) {
        if (table === undefined) expect(held.reduce((sum, { flows }) => sum + flows, 0)).toBeLessThanOrEqual(4_096);
        else expect((flowsOf.get(table) ?? 0) / Number(cookieMask + 1n)).toBeLessThanOrEqual(4_096);
      }
    }),
  );
});

it('a filter narrower than a table is not divided', () => {
  expect([{}, { table: 7 }, { table: 7, cookie: undefined }].map((filter) => isOfTables(filter as FlowFilter))).toEqual([true, true, true]);
  expect([{ cookie: 1n }, { table: 7, outPort: 3 }, { match: new Uint8Array() }].map(isOfTables)).toEqual([false, false, false]);
});
