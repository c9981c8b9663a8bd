import { setTimeout as sleep } from 'node:timers/promises';
import { startAgent } from '../../lab/node/agent.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';

const patienceMs = 30_000;
/** Beginnings of the log line: of this release, and of releases before 0.24.0. */
const released = ['all sources are synced; ', 'every source is in step; '];

/**
 * Replaces the agent of a node, and waits until the new one has compared everything.
 *
 * @param program script that node runs as the agent
 * @returns time until the agent was ready (ms)
 */
export async function replaceAgentOf(lab: ConvergeLab, number: number, program: string): Promise<number> {
  await lab.agent(number, 'stop');
  return await startAgentOf(lab, number, program);
}

/** Starts an agent on a node that has none, and waits like `replaceAgentOf`. */
export async function startAgentOf(lab: ConvergeLab, number: number, program: string): Promise<number> {
  const lines = lab.log(number).length;
  startAgent(lab.plan, lab.node(number), program);
  const readyMs = await lab.untilReady(number, patienceMs);
  await until(
    () =>
      lab
        .log(number)
        .slice(lines)
        .some(({ msg }) => released.some((text) => msg.startsWith(text))),
    patienceMs,
    () => 'the sources of the agent are not synced',
  );
  await sleep(1_000);
  return readyMs;
}
