import { describe, expect, it } from 'vitest';
import { shippedAgent } from '../chaos/lab.ts';
import { Chaos } from '../chaos/run.ts';

/**
 * The first steps of `npm run test:chaos`, by a seed that stays, so that one commit's failure is not another's luck; `npm run test:random` does
 * more of them, and as many by the seed of its run. Some of them may change what ought to be: each costs a virgin agent. Deadlines are for a
 * machine that runs other labs as well; what they are worth is for the long runs to say.
 */
const stepCount = Number(process.env['SEINE_TEST_TORTURE_STEPS'] ?? 8);
const steps = Array.from({ length: stepCount }, (_, number) => number);
const changesMost = Math.ceil(stepCount / 5);
const { SEINE_TEST_SEED: ofRun } = process.env;
const seeds = [17, ...(ofRun === undefined ? [] : [Number(ofRun)])];

describe.each(seeds)('by seed %i', (seed) => {
  it(`harmed and changed in ${stepCount} steps, a node is what a virgin agent makes`, { timeout: 900_000 }, async () => {
    const say = (line: string): void => console.log(line);
    const chaos = await Chaos.begin({
      seed,
      steps,
      agent: shippedAgent,
      podInterface: 'half',
      patience: 6,
      changesMost,
      hertz: 10,
      say,
    });
    try {
      let done = -1; // before the first step, too, it is what it ought to be
      for await (const { number, agent, deeds, problems } of chaos.steps()) {
        expect(problems, `step ${number}, agent ${agent}: ${deeds.join('; ')}`).toEqual([]);
        done = number;
      }
      expect(done).toBe(steps.at(-1));
    } finally {
      await chaos.end();
    }
  });
});
