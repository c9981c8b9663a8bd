import { afterAll, beforeAll, expect, it } from 'vitest';
import { shippedAgent } from '../torture/lab.ts';
import { Torture } from '../torture/run.ts';

/**
 * Twenty steps of `npm run test:torture`, by a seed that stays, so that one commit's failure is not another's luck. Four of them may change what
 * ought to be: each costs a virgin agent. Deadlines are for a machine that runs other labs as well; what they are worth is for the long runs to say.
 */
const seed = 17;
const steps = Array.from({ length: 20 }, (_, number) => number);
let torture: Torture;

beforeAll(async () => {
  const say = (line: string): void => console.log(line);
  torture = await Torture.begin({ seed, steps, agent: shippedAgent, podInterface: 'half', patience: 6, changesMost: 4, hertz: 10, say });
});

afterAll(async () => {
  await torture?.end();
});

it(`harmed and changed in twenty steps of seed ${seed}, a node is what a virgin agent makes`, async () => {
  let done = -1; // before the first step, too, it is what it ought to be
  for await (const { number, agent, deeds, problems } of torture.steps()) {
    expect(problems, `step ${number}, agent ${agent}: ${deeds.join('; ')}`).toEqual([]);
    done = number;
  }
  expect(done).toBe(steps.at(-1));
}, 900_000);
