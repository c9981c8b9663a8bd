import { expect, it } from 'vitest';
import { LoopTurns } from './loop-turns.ts';

const jobs = 8;
const unitMs = 0.5;
const unitsOfSlice = 4;

it('lets timers run between the slices of several jobs', async () => {
  const turns = new LoopTurns(unitMs * unitsOfSlice);
  let sinceTick = 0;
  const between: number[] = [];
  const probe = setInterval(() => {
    between.push(sinceTick);
    sinceTick = 0;
  }, 1);
  const job = async () => {
    for (let unit = 0; unit < 100; unit++) {
      const untilMs = performance.now() + unitMs;
      while (performance.now() < untilMs);
      sinceTick += 1;
      if (turns.due) await turns.next();
    }
  };
  await Promise.all(Array.from({ length: jobs }, job));
  clearInterval(probe);
  // One slice, and before the first one a unit of each job. Counted and not timed: a busy machine makes units long, not many.
  expect(Math.max(...between)).toBeLessThanOrEqual(unitsOfSlice + jobs);
  expect(between.length).toBeGreaterThan((jobs * 100) / (unitsOfSlice + jobs));
});
