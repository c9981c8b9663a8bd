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
  // Each job works for one unit before it first sees that the slice is used up, and a timer may be one or two rounds of the event loop
  // late. Units are counted rather than timed: a busy host makes units longer, not more numerous. With a slice for each job, the sum of all
  // their slices would pass.
  const mostUnits = jobs + 3 * unitsOfSlice;
  expect(Math.max(...between)).toBeLessThanOrEqual(mostUnits);
  expect(between.length).toBeGreaterThan((jobs * 100) / mostUnits);
});

it('shortens slices while a caller waits, and no longer', async () => {
  const turns = new LoopTurns(60_000, 0);
  await turns.next();
  expect(turns.due).toBe(false);
  const { promise: answered, resolve: answer } = Promise.withResolvers<string>();
  const [waited, refused] = [turns.during(answered), turns.during(Promise.reject(new Error('refused')))];
  expect(turns.due).toBe(true);
  await expect(refused).rejects.toThrow('refused');
  expect(turns.due).toBe(true);
  answer('yes');
  expect(await waited).toBe('yes');
  expect(turns.due).toBe(false);
});
