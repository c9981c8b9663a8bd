import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Command } from 'commander';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { AgentClient } from '../agent-client.ts';
import { addDrops } from './drops-command.ts';

let folder: string;
let fleet: FakeFleet | undefined;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-drops-'));
});
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const drop = (name: string, packets: string) => ({ table: 'route', name, packets, message: 'It is dropped', cause: 'a', remedy: 'b' });

async function drops(agents: readonly FakeAgent[], ...args: readonly string[]) {
  fleet = new FakeFleet({ agents });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const here = { clusters: [{ name: 'here', cluster: { server } }], users: [{ name: 'me', user: { token: 'secret' } }] };
  writeFileSync(
    kubeconfig,
    JSON.stringify({ ...here, contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }], 'current-context': 'here' }),
  );
  const { terminal, out, err } = recordingTerminal();
  const root = new Command();
  let code: number | undefined;
  const agent = () => new AgentClient(join(folder, 'none.sock'));
  addDrops(root, { agent, terminal, env: {}, exitWith: async (work) => void (code = await work) });
  await root.parseAsync(['drops', '--kubeconfig', kubeconfig, ...args], { from: 'user' });
  return { code, out: out.join('\n'), err: err.join('\n') };
}

const answering = (node: string, ...items: readonly object[]): FakeAgent => ({ node, reply: { answer: JSON.stringify({ items }) } });

it('prints the drops of all nodes by node, from a host without an agent', async () => {
  const { code, out } = await drops([answering('node-1', drop('route.none', '7')), answering('node-2', drop('ttl', '0'))]);
  expect(out).toMatch(/node-1:\n *PACKETS +REASON.*\n +7 +route\.none/);
  expect(out).not.toContain('ttl');
  expect(code).toBe(0);
});

it('asks one node, and names one that does not answer', async () => {
  const agents = [answering('node-1', drop('route.none', '7')), { node: 'node-2', reply: 'refused' } as const];
  expect(await drops(agents, '--node', 'node-1')).toMatchObject({ code: 0, err: 'answered by the agent of node-1' });
  await fleet?.close();
  const { code, err } = await drops(agents);
  expect(err).toContain('the user needs the rights to create and get pods/exec in namespace seine-system (1 node: node-2)');
  expect(code).toBe(3);
});

it('prints cause and remedy of each reason below it', async () => {
  const { out } = await drops([answering('node-1', drop('route.none', '7'), drop('ttl', '2'))], '-o', 'wide');
  expect(out.split('\n').map((line) => line.replace(/ +/g, ' ').trim())).toEqual([
    ...['PACKETS REASON TABLE MEANING', '7 route.none route It is dropped', 'Usual cause: a', 'What to do: b'],
    ...['2 ttl route It is dropped', 'Usual cause: a', 'What to do: b'],
  ]);
});

it('names nodes without an agent, and says equal reasons of many nodes once', async () => {
  const forbidden = ['node-2', 'node-3'].map((node): FakeAgent => ({ node, reply: 'refused' }));
  const { code, err } = await drops([answering('node-1', drop('ttl', '1')), ...forbidden, { ...answering('node-4'), absent: true }]);
  expect(err.split('\n')).toEqual([
    expect.stringMatching(/403 Forbidden: .*create and get pods\/exec in namespace seine-system \(2 nodes: node-2, node-3\)$/),
    'seinectl: no answer: no agent has a pod there (1 node: node-4)',
    '1 node of 4 answered',
  ]);
  expect(code).toBe(3);
});
