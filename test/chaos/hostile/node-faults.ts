import { runOn, until } from '../host.ts';
import { type Lab, type LabNode, readiness } from '../lab.ts';
import type { Random } from '../random.ts';
import type { LivezWatch } from './livez.ts';

export const faultNames = ['flows', 'groups', 'switch', 'agent', 'switch and agent'] as const;
export type FaultName = (typeof faultNames)[number];

/** Frequencies of node faults while attackers' objects exist: one step of this many. */
export const faultEvery = 8;
const readyMs = 60_000;
/** A restarted agent answers within this time, whatever objects there are; its copies of them are read first. */
const answersMs = 20_000;

export interface NodeFault {
  readonly name: FaultName;
  readonly node: LabNode;
}

export function drawFault(random: Random, { tried, other }: Lab): NodeFault {
  return { name: random.pick(faultNames), node: random.pick([tried, other]) };
}

export function faultText({ name, node }: NodeFault): string {
  if (name === 'flows' || name === 'groups') return `the bridge of ${node.name} loses its ${name}`;
  return `${name} of ${node.name} killed and started`;
}

/** A node after a fault, and its recovery. */
export interface FaultyNode {
  /** Starts what was ended. */
  readonly start: () => Promise<void>;
}

/** Injects the fault. Killed processes stay ended until `start`: traffic of such a node is a separate question. */
export async function injectNodeFault(lab: Lab, { name, node }: NodeFault, livez: LivezWatch): Promise<FaultyNode> {
  const ofctl = (...args: readonly string[]): Promise<string> => runOn(node, 'ovs-ofctl', '-O', 'OpenFlow15', ...args);
  if (name === 'flows') await ofctl('del-flows', 'br-int');
  if (name === 'groups') await ofctl('del-groups', 'br-int');
  const [killsAgent, killsSwitch] = [name.endsWith('agent'), name.startsWith('switch')];
  if (killsAgent) {
    livez.ended(node.name);
    await lab.pull(`agents/${node.name}/kill`);
  }
  if (killsSwitch) await lab.pull(`ovs/${node.name}/kill/all`);
  return {
    start: async () => {
      if (killsSwitch) await lab.pull(`ovs/${node.name}/start`);
      if (killsAgent) await startAgent(lab, node, livez);
      await untilReady(node);
    },
  };
}

async function startAgent(lab: Lab, node: LabNode, livez: LivezWatch): Promise<void> {
  await lab.pull(`agents/${node.name}/start`);
  await until(
    async () => !(await readiness(node.agentSocket)).says.startsWith('connect'),
    answersMs,
    () => `the agent of ${node.name} does not listen`,
  );
  livez.begun(node.name);
}

async function untilReady(node: LabNode): Promise<void> {
  let says = '';
  await until(
    async () => {
      const answer = await readiness(node.agentSocket);
      says = answer.says;
      return answer.ready;
    },
    readyMs,
    () => `the agent of ${node.name} is not ready again: ${says}`,
  );
}
