import { describe, expect, it } from 'vitest';
import { shippedAgent } from '../chaos/lab.ts';
import { Chaos } from '../chaos/run.ts';

/**
 * The first steps of `npm run test:chaos`, with a fixed seed, so that one commit's failure does not depend on another's draws; `npm run
 * test:random` executes more of them, with the seed of its run. Some of them may change the desired state: each costs a fresh agent.
 * Deadlines are for a host that runs other labs as well; the long runs check them strictly.
 */
const stepCount = Number(process.env['SEINE_TEST_TORTURE_STEPS'] ?? 8);
const steps = Array.from({ length: stepCount }, (_, number) => number);
const changesMost = Math.ceil(stepCount / 5);
const { SEINE_TEST_SEED: ofRun } = process.env;
const seeds = [17, ...(ofRun === undefined ? [] : [Number(ofRun)])];

describe.each(seeds)('by seed %i', (seed) => {
  it(`after ${stepCount} steps of faults and changes, a node equals the one that a fresh agent creates`, { timeout: 900_000 }, async () => {
    const print = (line: string): void => console.log(line);
    const chaos = await Chaos.begin({
      seed,
      steps,
      agent: shippedAgent,
      podInterface: 'half',
      patience: 6,
      changesMost,
      hertz: 10,
      print,
    });
    try {
      let done = -1; // the state is correct before the first step, too
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
