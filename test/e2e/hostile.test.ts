import { expect, it } from 'vitest';
import { HostileCluster } from '../chaos/hostile/run.ts';
import { shippedAgent } from '../chaos/lab.ts';

/**
 * Twenty objects of `npm run test:hostile`, with a fixed seed; `npm run test:random` writes more, with the seed of its run. Deadlines are
 * for a host that runs other labs as well.
 */
const count = Number(process.env['SEINE_TEST_HOSTILE_OBJECTS'] ?? 20);
const steps = Array.from({ length: count }, (_, number) => number);
const { SEINE_TEST_SEED: ofRun } = process.env;
const seeds = [38, ...(ofRun === undefined || count === 20 ? [] : [Number(ofRun)])];

it.each(seeds)(
  `${count} objects that one tenant may write harm no other, by seed %i`,
  { timeout: 300_000 + count * 10_000 },
  async (seed) => {
    const print = (line: string): void => console.log(line);
    const cluster = await HostileCluster.begin({ seed, steps, agent: shippedAgent, podInterface: 'half', patience: 6, print });
    let done = -1;
    let accepted = 0;
    try {
      for await (const { number, what, accepted: isAccepted, problems } of cluster.steps()) {
        expect(problems, `step ${number}: ${what}`).toEqual([]);
        done = number;
        if (number >= 0 && isAccepted) accepted++;
      }
    } finally {
      await cluster.end();
    }
    expect(done).toBe(steps.at(-1));
    // An object that an API server rejects harms no user, and shows nothing.
    expect(accepted).toBeGreaterThan(count / 2);
  },
);
