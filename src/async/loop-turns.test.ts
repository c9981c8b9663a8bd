import { expect, it } from 'vitest';
import { LoopTurns } from './loop-turns.ts';

it('lets timers run between the slices of several jobs', async () => {
  const turns = new LoopTurns(2);
  let longestMs = 0;
  let lastMs = performance.now();
  const probe = setInterval(() => {
    longestMs = Math.max(longestMs, performance.now() - lastMs);
    lastMs = performance.now();
  }, 1);
  const job = async () => {
    for (let unit = 0; unit < 100; unit++) {
      const untilMs = performance.now() + 0.5;
      while (performance.now() < untilMs);
      if (turns.due) await turns.next();
    }
  };
  await Promise.all(Array.from({ length: 8 }, job));
  clearInterval(probe);
  expect(longestMs).toBeGreaterThan(0);
  expect(longestMs).toBeLessThan(100); // 400 ms of work; one slice and one unit each, and room for a busy machine
});
