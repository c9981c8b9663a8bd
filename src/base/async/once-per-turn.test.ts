import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { oncePerTurn } from './once-per-turn.ts';

it('reads once in a turn, and again in a later one', async () => {
  let reads = 0;
  const value = oncePerTurn(() => ++reads);
  expect([value(), value(), value()]).toEqual([1, 1, 1]);
  await nextTurn();
  await nextTurn();
  expect([value(), value()]).toEqual([2, 2]);
});
