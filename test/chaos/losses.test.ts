import { expect, it } from 'vitest';
import { Losses } from './losses.ts';

/** Steps of a second each, from 1,000 on. */
function after(...mayLose: readonly boolean[]): Losses {
  const losses = new Losses();
  for (const [index, may] of mayLose.entries()) {
    losses.begin(1_000 * (index + 1));
    losses.end(may);
  }
  return losses;
}

it('permits a loss by the step in which it was sent, however many have followed', () => {
  const losses = after(false, true, false, false);
  expect([1_500, 2_500, 3_500, 4_500].map((moment) => losses.allowed(moment))).toEqual([false, true, false, false]);
});

it('permits losses of packets in flight when a fault is injected', () => {
  const losses = after(false, true);
  expect([1_900, 1_990].map((moment) => losses.allowed(moment))).toEqual([false, true]);
});

it('has no verdict for the time before the first step', () => {
  expect(after(false).allowed(500)).toBe(true);
});
