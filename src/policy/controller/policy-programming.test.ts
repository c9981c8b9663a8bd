import { expect, it } from 'vitest';
import { PolicyProgramming } from './policy-programming.ts';

it("reports the time from a round's first event to the acknowledgement of all of it, and nothing for events without effect", async () => {
  let [nowMs, revision] = [0, 1];
  const observed: number[] = [];
  const waiting: (() => void)[] = [];
  const programming = new PolicyProgramming({
    bridge: { revision: () => revision, realized: () => new Promise<void>((go) => waiting.push(go)) },
    observe: (seconds) => observed.push(seconds),
    now: () => nowMs,
  });
  programming.noted();
  revision++;
  programming.workedOff();
  expect(waiting).toEqual([]);

  programming.begin();
  programming.noted();
  programming.workedOff();
  expect(waiting).toEqual([]);

  nowMs = 1_000;
  programming.noted();
  nowMs = 1_500;
  programming.noted();
  revision++;
  programming.workedOff();
  programming.workedOff();
  nowMs = 3_000;
  for (const go of waiting.splice(0)) go();
  await expect.poll(() => observed).toEqual([2]);
});
