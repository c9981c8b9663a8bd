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

it('forgives a loss by the step in which it was sent, however many have come since', () => {
  const losses = after(false, true, false, false);
  expect([1_500, 2_500, 3_500, 4_500].map((moment) => losses.allowed(moment))).toEqual([false, true, false, false]);
});

it('forgives what was under way when a harm came', () => {
  const losses = after(false, true);
  expect([1_900, 1_990].map((moment) => losses.allowed(moment))).toEqual([false, true]);
});

it('knows nothing of the time before the first step', () => {
  expect(after(false).allowed(500)).toBe(true);
});
