import { expect, it } from 'vitest';
import { Comparison } from './comparison.ts';
import { DesiredState } from './desired-state.ts';

const equal = (a: { n: number }, b: { n: number }): boolean => a.n === b.n;

function setUp(backedOff: readonly string[] = []) {
  const desired = new DesiredState<string, { n: number }>({ equal });
  const retries = { isBackedOff: (key: string) => backedOff.includes(key) };
  return { desired, comparison: new Comparison({ desired, equal, now: () => 0, retries }) };
}

const held = (...entries: readonly (readonly [string, number])[]) => new Map(entries.map(([key, n]) => [key, { n }]));

it('adds different and missing entries, unless backed off', async () => {
  const { desired, comparison } = setUp(['c']);
  desired.set('o', held(['a', 1], ['b', 2], ['c', 3], ['d', 4]));
  const { put, remove } = await comparison.plan(['a', 'b', 'c', 'd'], held(['a', 1], ['b', 9]));
  expect([...put.keys()]).toEqual(['b', 'd']);
  expect([...remove]).toEqual([]);
});

it('keeps the desired value itself in place of an equal one', async () => {
  const { desired, comparison } = setUp();
  const wanted = held(['a', 1]);
  desired.set('o', wanted);
  const actual = held(['a', 1]);
  await comparison.plan(['a'], actual);
  expect(actual.get('a')).toBe(wanted.get('a'));
});

it('delays removals that are not allowed yet, and repeats them later, unless the entry is desired by then', async () => {
  const { desired, comparison } = setUp();
  const actual = held(['a', 1], ['b', 1], ['c', 1]);
  expect((await comparison.plan(['a', 'b', 'c'], actual)).remove.size).toBe(0);
  desired.set('o', held(['a', 1]));
  await comparison.plan(['a'], actual);
  expect(comparison.allowRemovals((key) => key === 'b', actual)).toEqual(['b']);
  expect([...(await comparison.plan(['b'], actual)).remove]).toEqual(['b']);
  expect(comparison.allowRemovals(() => true, actual)).toEqual(['c']);
});
