import { afterAll, beforeAll, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import type { FoundProblem } from '../../src/api/problem.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

/** A link between nodes that is cut is named by the agents of other nodes. */
let lab: ConvergeLab;

beforeAll(async () => {
  lab = await ConvergeLab.start(3);
});
afterAll(async () => await lab?.remove());

const agentOf = (number: number): AgentClient => new AgentClient(nodePaths(lab.plan.dir, lab.node(number).name).apiSocket);

async function problemsOf(number: number): Promise<readonly FoundProblem[]> {
  const { problems } = (await agentOf(number).json('/v1/status')) as { readonly problems: readonly FoundProblem[] };
  return problems.filter(({ kind }) => kind === 'mesh.peer');
}

/** Observed states of the paths from a node: two peers, each over two families. */
async function states(number: number): Promise<readonly string[]> {
  const { items } = (await agentOf(number).json('/v1/mesh')) as { readonly items: readonly { readonly state: string }[] };
  return items.map(({ state }) => state);
}

/** Name of the link between nodes, inside a node. */
async function linkOf(number: number): Promise<string> {
  const [, name = ''] = / dev (\S+)/.exec(await lab.exec(number, 'ip', 'route', 'get', '192.168.77.1')) ?? [];
  return name;
}

const reached = async (): Promise<boolean> => {
  const seen = await states(1);
  return seen.length === 4 && seen.every((state) => state === 'reached') && (await problemsOf(1)).length === 0;
};

it('names a node whose link is cut within 30 seconds, until it is reached again', async () => {
  await until(reached, 60_000, () => 'not all nodes are reached');
  const link = await linkOf(3);
  const bad = lab.node(3).name;
  const named = async (words: RegExp): Promise<boolean> =>
    (await problemsOf(1)).some(({ about, message }) => about === bad && words.test(message));

  await lab.exec(3, 'ip', 'link', 'set', link, 'down');
  const cutMs = await until(
    () => named(/does not answer over ipv4/),
    30_000,
    () => 'the cut link is not named',
  );
  await lab.exec(3, 'ip', 'link', 'set', link, 'up');
  await until(reached, 60_000, () => 'the node is not reached again');

  process.stdout.write(`a cut link is named after ${cutMs} ms\n`);
  await until(
    async () => (await problemsOf(2)).length === 0,
    60_000,
    () => 'the other node does not reach it again',
  );
}, 300_000);

it('names a node whose link has a smaller MTU, until it has the whole one', async () => {
  await until(reached, 60_000, () => 'not all nodes are reached');
  const named = async (): Promise<boolean> =>
    (await problemsOf(1)).some(({ about, message }) => about === lab.node(3).name && /not to packets of \d+ bytes/.test(message));
  // The wire itself. The interface with the node's address is one of the bridge on the userspace data path: tunnel packets do not pass it.
  await lab.exec(3, 'ip', 'link', 'set', 'eth0', 'mtu', '1400');
  const narrowMs = await until(named, 90_000, () => 'the narrow link is not named');
  await lab.exec(3, 'ip', 'link', 'set', 'eth0', 'mtu', '1500');
  await until(reached, 90_000, () => 'packets of full size are not answered again');
  process.stdout.write(`a narrow link is named after ${narrowMs} ms\n`);
}, 300_000);
