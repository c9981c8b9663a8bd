import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet, type FakeFleetOptions } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { runCluster } from '../cluster/cluster-program.ts';

let folder: string;
let fleet: FakeFleet | undefined;
let further: Partial<FakeFleetOptions> = {};

beforeEach(() => {
  further = {};
  folder = mkdtempSync(join(tmpdir(), 'seine-nodes-'));
});
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const podOn = (nodeName: string): object => ({ metadata: { name: 'pod' }, spec: { nodeName } });
const explained = (node: string): string =>
  JSON.stringify({ state: 'ok', name: 'shop/web-0', lines: [`shop/web-0 is on ${node}\u001b[2J`] });
const decided = (verdict: string): string =>
  JSON.stringify({
    from: 'shop/web-0',
    to: 'shop/db-0',
    port: '80/TCP',
    verdict,
    ends: [],
    remarks: ['the other end is decided elsewhere'],
  });

async function seinectl(agents: readonly FakeAgent[], ...words: readonly string[]) {
  fleet = new FakeFleet({
    agents,
    ...further,
    single: {
      '/api/v1/namespaces/shop/pods/web-0': podOn('node-1'),
      '/api/v1/namespaces/shop/pods/db-0': podOn('node-2'),
      '/api/v1/namespaces/shop/pods/lone': podOn('node-9'),
    },
  });
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(
    kubeconfig,
    JSON.stringify({
      clusters: [{ name: 'here', cluster: { server: `http://127.0.0.1:${await fleet.listen()}` } }],
      users: [{ name: 'me', user: { token: 'secret' } }],
      contexts: [{ name: 'here', context: { cluster: 'here', user: 'me' } }],
      'current-context': 'here',
    }),
  );
  const { terminal, out, err } = recordingTerminal();
  const code = await runCluster([...words, '--kubeconfig', kubeconfig], terminal, {});
  return { code, out: out.join('\n'), err: err.join('\n'), requests: fleet.requests.map(decodeURIComponent), commands: fleet.commands };
}

const both = (first: FakeAgent['reply'], second: FakeAgent['reply'] = first): FakeAgent[] => [
  { node: 'node-1', reply: first },
  { node: 'node-2', reply: second },
];

it('explains a pod with the agent of its node, and escapes the answer', async () => {
  const { code, out, err, requests } = await seinectl(both({ answer: explained('node-2') }), 'explain', 'pod', 'shop/db-0');
  expect(requests).toEqual(['/v1/explain/pod?name=shop/db-0']);
  expect(out).toBe('shop/web-0 is on node-2\\u001b[2J');
  expect(err).toContain('answered by the agent of node-2');
  expect(code).toBe(0);
});

it('shows the policies of a pod as the agent of its node enforces them, from images with and without a relay', async () => {
  const free = { state: 'free', isolatedBy: [], rules: [], moreRules: 0 };
  const answer = JSON.stringify({ name: 'shop/db-0', addresses: ['10.10.0.5'], ingress: free, egress: { ...free, state: 'closed' } });
  const lines = [
    'Pod shop/db-0 (10.10.0.5)',
    'ingress: free, no policy isolates it',
    'egress: blocked except for its own node: unknown pod',
  ];
  const shown = await seinectl(both({ answer }), 'policy', 'pod', 'shop/db-0');
  expect(shown).toMatchObject({ code: 1, out: lines.join('\n'), requests: ['/v1/policy/pod?name=shop/db-0'] });
  await fleet?.close();
  const printed = both({ answer: 'printed there', code: 1 }).map((agent) => ({ ...agent, isOld: true }));
  const old = await seinectl(printed, 'policy', 'pod', 'shop/db-0');
  expect(old).toMatchObject({ code: 1, out: 'printed there' });
  expect(old.commands.at(-1)).toEqual(['seinectl', 'policy', 'pod', '--', 'shop/db-0']);
});

it('decides a connection on the nodes of both ends', async () => {
  const agents = both({ answer: decided('allow') }, { answer: decided('deny') });
  const { code, out, requests } = await seinectl(agents, 'policy', 'explain', 'shop/web-0', 'shop/db-0', '80');
  expect(requests).toHaveLength(2);
  expect(out.split('\n').filter((line) => !line.startsWith('the other'))).toEqual([
    'node-1:',
    'shop/web-0 to shop/db-0 port 80/TCP: allowed, as far as this node decides',
    'node-2:',
    'shop/web-0 to shop/db-0 port 80/TCP: denied, as far as this node decides',
  ]);
  expect(code).toBe(1);
});

it('names the nodes that do not answer, with the rest of the answer', async () => {
  const agents = both({ answer: decided('allow') }, 'exit');
  const { code, out, err } = await seinectl(agents, 'policy', 'explain', 'shop/web-0', 'shop/db-0');
  expect(out).toContain('allowed');
  expect(err).toContain('seinectl: no answer: no agent answers on /run/seine/agent.sock: No such file or directory (1 node: node-2)');
  expect(code).toBe(3);
});

it('prints one document of all nodes for programs', async () => {
  const agents = both({ answer: JSON.stringify({ setting: 'off', requests: [] }) }, 'refused');
  const { code, out } = await seinectl(agents, 'policy', 'log', '-o', 'json');
  expect(JSON.parse(out)).toEqual({
    nodes: [{ node: 'node-1', exitCode: 0, answer: { setting: 'off', requests: [] } }],
    silent: [
      { node: 'node-2', why: expect.stringContaining('the user needs the rights to create and get pods/exec in namespace seine-system') },
    ],
  });
  expect(code).toBe(3);
});

it('runs seinectl on the nodes of agents without a relay', async () => {
  const agents = both({ answer: 'shop/web-0 is well' }).map((agent) => ({ ...agent, isOld: true }));
  const { code, out, commands } = await seinectl(agents, 'explain', 'pod', 'shop/web-0');
  expect(commands.at(-1)).toEqual(['seinectl', 'explain', 'pod', 'shop/web-0']);
  expect(out).toBe('shop/web-0 is well');
  expect(code).toBe(0);
});

describe('reports what it cannot find', () => {
  it.each([
    ['a pod', ['explain', 'pod', 'shop/none'], 2, 'the cluster has no pod shop/none'],
    ['a node without agent', ['explain', 'pod', 'shop/lone'], 3, 'node node-9 has no agent in this namespace'],
    ['a node', ['policy', 'log', '--node', 'node-7'], 3, 'node node-7 has no agent in this namespace'],
    ['two addresses outside', ['policy', 'explain', '192.0.2.1', '192.0.2.2'], 2, 'neither end is a pod of the cluster'],
  ])('%s', async (_, words, exit, text) => {
    const { code, err } = await seinectl(both('exit'), ...words);
    expect(err).toContain(text);
    expect(code).toBe(exit);
  });
});

it('copies the lines of a capture, escaped', async () => {
  const { code, out, err, commands } = await seinectl(
    both({ answer: '12:00:00 web \u001b[31m> db\nlast\n' }),
    'capture',
    'shop/web-0',
    '--for',
    '2s',
  );
  expect(commands.at(-1)?.slice(0, 5)).toEqual(['seinectl', 'capture', 'shop/web-0', '--for', '2s']);
  expect(out.split('\n')).toEqual(['12:00:00 web \\u001b[31m> db', 'last']);
  expect(err).toContain('2 frames');
  expect(code).toBe(0);
});

describe('names a node, and not its answer', () => {
  it('whose agent starts', async () => {
    const starting = { status: 503, body: 'the agent starts: waiting for Services' };
    further = { recorded: (node) => (node === 'node-2' ? starting : undefined) };
    const { code, out, err } = await seinectl(both({ answer: JSON.stringify({ setting: 'off', requests: [] }) }), 'policy', 'log');
    expect(out).toContain('node-1:');
    expect(out).not.toContain('node-2:');
    expect(err).toContain('seinectl: no answer: the agent starts: waiting for Services (1 node: node-2)');
    expect(code).toBe(3);
  });

  it('the way to which the API server refuses', async () => {
    const { code, out, err } = await seinectl(
      both({ answer: decided('allow') }, 'refused'),
      'policy',
      'explain',
      'shop/web-0',
      'shop/db-0',
    );
    expect(out).not.toContain('node-2:');
    expect(err).toContain('the user needs the rights to create and get pods/exec in namespace seine-system (1 node: node-2)');
    expect(code).toBe(3);
  });
});

it('ends a capture as the program on the node ended', async () => {
  const agents = both({ answer: '', code: 2 });
  const { code, err } = await seinectl(agents, 'capture', 'shop/web-0', '--interface', 'eth9', '--for', '1s');
  expect(err).toContain('seinectl: the program ended with 2');
  expect(code).toBe(2);
});
