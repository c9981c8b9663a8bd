import { expect, it } from 'vitest';
import { RepairHistory } from './repair-history.ts';

it('records the owners of repaired entries', () => {
  const history = new RepairHistory();
  history.note('bridge', ['a', 'b', 'c'], (key) => (key === 'c' ? [] : ['pod/x', key]));
  history.note('host', ['d'], () => ['node']);
  expect(history.of('pod/x')).toMatchObject([{ what: 'bridge', entries: 3, more: false }]);
  expect(history.of('pod/x')[0]?.owners.get('pod/x')).toBe(2);
  expect(history.of('peer/y')).toEqual([]);
});

it('stays small: the oldest are dropped, and of a wipe only some owners are recorded, with a note of more', () => {
  const history = new RepairHistory();
  const keys = Array.from({ length: 100_000 }, (_, at) => `k${at}`);
  let asked = 0;
  history.note('bridge', keys, (key) => {
    asked++;
    return [key];
  });
  expect(asked).toBeLessThanOrEqual(3_000);
  expect(history.of('k99999')).toMatchObject([{ more: true, entries: 100_000 }]);
  for (let at = 0; at < 1_000; at++) history.note('host', [at], () => ['node']);
  expect(history.of('node')).toHaveLength(200);
  expect(history.of('k1')).toEqual([]);
});
