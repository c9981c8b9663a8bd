import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type PlanBatch, planBatches } from './plan-batch.ts';

/** Keys are `owner/table/number`; an owner may have entries in several tables. */
const ownerOf = (key: string): string => key.split('/')[0] ?? '';
const depthOf = (key: string): number => Number(key.split('/')[1]);
const keys = fc.uniqueArray(
  fc.tuple(fc.integer({ min: 0, max: 9 }), fc.integer({ min: 0, max: 5 }), fc.nat(20)).map((parts) => parts.join('/')),
  { maxLength: 60 },
);
const plans = fc.record({ put: keys, remove: keys, size: fc.integer({ min: 1, max: 30 }) });

/** Tables that each batch puts entries into, by owner: the first table of each. */
function foremost({ put }: PlanBatch<string, number>): number[] {
  return [...Map.groupBy(put.keys(), ownerOf).values()].map((own) => Math.min(...own.map(depthOf)));
}

it('adds everything once, an owner’s entries together, those of later tables first, and removes them last', () => {
  const runs = fc.property(plans, ({ put, remove, size }) => {
    const plan = { put: new Map(put.map((key) => [key, 1])), remove: new Set(remove) };
    const batches = planBatches(plan, ownerOf, size, depthOf);
    expect(batches.flatMap((batch) => [...batch.put.keys()]).toSorted()).toEqual(put.toSorted());
    expect(batches.flatMap((batch) => [...batch.remove]).toSorted()).toEqual(remove.toSorted());
    for (const [at, { put: now, owners, remove: gone }] of batches.entries()) {
      expect(new Set([...now.keys()].map(ownerOf))).toEqual(new Set(owners));
      const later = batches.slice(at + 1);
      expect(later.some((batch) => owners.some((owner) => batch.owners.includes(owner)))).toBe(false);
      expect(Math.min(...foremost({ put: now, remove: gone, owners }))).toBeGreaterThanOrEqual(Math.max(...later.flatMap(foremost)));
      if (gone.size > 0) expect(later.every((batch) => batch.put.size === 0)).toBe(true);
      expect(Math.max(...[...gone].map(depthOf))).toBeLessThanOrEqual(
        Math.min(...later.flatMap((batch) => [...batch.remove]).map(depthOf)),
      );
    }
  });
  fc.assert(runs, { numRuns: 500 });
});

it('does not split a plan that fits into one batch', () => {
  const plan = { put: new Map(['1/0/0', '0/1/0', '1/2/0'].map((key) => [key, 1])), remove: new Set(['2/5/0', '2/1/0']) };
  expect(planBatches(plan, ownerOf, 5, depthOf)).toEqual([{ ...plan, put: plan.put, owners: ['1', '0'] }]);
});

it('never splits a group, and puts groups that share a key into one batch', () => {
  const runs = fc.property(plans, fc.array(fc.array(fc.nat(), { maxLength: 6 }), { maxLength: 3 }), ({ put, remove, size }, chosen) => {
    const gone = remove.filter((key) => !put.includes(key));
    const plan = { put: new Map(put.map((key) => [key, 1])), remove: new Set(gone) };
    const all = [...put, ...gone];
    const groups = chosen.map((places) => new Set(places.flatMap((at) => all[at % Math.max(1, all.length)] ?? [])));
    const batches = planBatches(plan, ownerOf, size, depthOf, [...groups, new Set(['not there'])]);
    expect(batches.flatMap((batch) => [...batch.put.keys()]).toSorted()).toEqual(put.toSorted());
    expect(batches.flatMap((batch) => [...batch.remove]).toSorted()).toEqual(gone.toSorted());
    for (const group of groups.filter((each) => each.size > 0)) {
      const holding = batches.filter((batch) => [...group].some((key) => batch.put.has(key) || batch.remove.has(key)));
      expect(holding.map(({ isWhole }) => isWhole)).toEqual([true]);
    }
  });
  fc.assert(runs, { numRuns: 500 });
});
