import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { parse as parseYaml } from 'yaml';
import { type FakeAgent, FakeFleet, fakeStatus } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { plain } from '../paint.ts';
import { look } from './cluster-options.ts';

let folder: string;
const fleets: FakeFleet[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-fleet-'));
});
afterEach(async () => {
  for (const fleet of fleets.splice(0)) await fleet.close();
  rmSync(folder, { recursive: true, force: true });
});

const well = (node: string, more: Partial<FakeAgent> = {}): FakeAgent => ({ node, reply: { answer: fakeStatus(node) }, ...more });

async function fleetOf(agents: readonly FakeAgent[], more: { readonly nodesForbidden?: boolean; readonly page?: number } = {}) {
  const fleet = new FakeFleet({ agents, ...more });
  fleets.push(fleet);
  const port = await fleet.listen();
  const kubeconfig = join(folder, 'kubeconfig');
  writeFileSync(kubeconfig, kubeconfigText(port));
  return { fleet, kubeconfig };
}

function kubeconfigText(port: number): string {
  return JSON.stringify({
    clusters: [
      { name: 'here', cluster: { server: `http://127.0.0.1:${port}` } },
      { name: 'away', cluster: { server: 'http://127.0.0.1:1' } },
    ],
    users: [{ name: 'me', user: { token: 'secret' } }],
    contexts: ['here', 'away'].map((name) => ({ name, context: { cluster: name, user: 'me' } })),
    'current-context': 'here',
  });
}

type LookOptions = Parameters<typeof look>[1];

async function asked(kubeconfig: string, what: Parameters<typeof look>[0] = 'status', more: Partial<LookOptions> = {}) {
  const { terminal, out, err } = recordingTerminal();
  const options: LookOptions = { kubeconfig, namespace: 'seine-system', timeout: 20, parallel: 100, output: 'table', ...more };
  const code = await look(what, options, terminal, {});
  return { code, out: out.join('\n'), err: err.join('\n') };
}

it('reports a healthy fleet', async () => {
  const { kubeconfig } = await fleetOf([well('node-1'), well('node-2'), well('node-3', { pool: 'canary' })]);
  const { code, out } = await asked(kubeconfig);
  expect(out.split('\n')).toEqual([
    '3 agents: 3 answered',
    '',
    'POOL     NODES  READY  WITH PROBLEMS  OLDEST CHECK  VERSION  OPEN VSWITCH  DATA PATH  POLICIES',
    'default      2      2              0            8s  0.5.0    3.1.0         system     enforce',
    'canary       1      1              0            8s  0.5.0    3.1.0         system     enforce',
    '',
    'No problems.',
  ]);
  expect(code).toBe(0);
});

it('groups problems, names nodes, and ends with 1', async () => {
  const problem = (about: string) => ({ kind: 'part.refused' as const, about, message: `entries of ${about} are refused`, ageSeconds: 4 });
  const sick = (node: string, about: string) =>
    well(node, { reply: { answer: fakeStatus(node, { verdict: 'problems', problems: [problem(about)] }), code: 1 } });
  const starting = fakeStatus('node-9', { readiness: { state: 'starting', reason: 'bridge lock is held by another agent: br-int' } });
  const { kubeconfig } = await fleetOf([
    ...Array.from({ length: 7 }, (_, at) => sick(`node-${at + 1}`, at < 5 ? 'peer/a' : 'peer/b')),
    well('node-9', { reply: { answer: starting, code: 1 } }),
  ]);
  const { code, out } = await asked(kubeconfig);
  expect(out).toContain('! not ready: starting: bridge lock is held by another agent: br-int (1 node: node-9)');
  expect(out).toContain(
    [
      '! part.refused (7 nodes: node-1, node-2, node-3, node-4, node-5 and 2 more)',
      '    entries of peer/a are refused (5 times)',
      '    entries of peer/b are refused (2 times)',
    ].join('\n'),
  );
  expect(out).not.toContain('No problems.');
  expect(code).toBe(1);
});

it('names agents that did not answer with reasons, and nodes without agent, and ends with 3', async () => {
  const { kubeconfig } = await fleetOf([
    well('node-1'),
    well('node-2', { reply: 'cut' }),
    well('node-3', { reply: 'refused' }),
    well('node-4', { reply: 'refused' }),
    well('node-5', { reply: 'no program' }),
    well('node-6', { reply: 'exit' }),
    well('node-7', { reply: { answer: 'Welcome!' } }),
    well('node-8', { waiting: 'CrashLoopBackOff' }),
    well('node-9', { absent: true }),
  ]);
  const { code, out } = await asked(kubeconfig);
  expect(out.split('\n')[0]).toBe('8 agents: 1 answered, 7 did not');
  expect(out.split('\n').filter((line) => line.startsWith('?'))).toEqual([
    '? no answer: the API server answered 403 Forbidden: User "me" cannot get resource "pods/exec"; the user needs the rights to create and get pods/exec in namespace seine-system (2 nodes: node-3, node-4)',
    expect.stringMatching(/^\? no answer: its answer is not a status \(1 node: node-7\)$/),
    '? no answer: its container agent waits: CrashLoopBackOff (1 node: node-8)',
    expect.stringMatching(/^\? no answer: no agent answers on \/run\/seine\/agent.sock: No such file or directory \(1 node: node-6\)$/),
    expect.stringMatching(/^\? no answer: the answer breaks off \(1 node: node-2\)$/),
    expect.stringMatching(/^\? no answer: the program was not run: exec: "seinectl": not found \(1 node: node-5\)$/),
    "? no agent's pod on 1 node: node-9",
  ]);
  expect(code).toBe(3);
});

it('waits for a silent one until the given timeout', async () => {
  const { kubeconfig } = await fleetOf([well('node-1', { reply: 'silent' })]);
  const { code, out } = await asked(kubeconfig, 'status', { timeout: 1 });
  expect(out).toContain('? no answer: no answer in time (1 node: node-1)');
  expect(out).toContain('1 agent: 0 answered, 1 did not');
  expect(code).toBe(3);
});

it('limits concurrent requests, reports progress on standard error, and lists a node per line on request', async () => {
  const { fleet, kubeconfig } = await fleetOf(
    Array.from({ length: 120 }, (_, at) => well(`node-${at + 1}`)),
    { page: 50 },
  );
  const { code, out, err } = await asked(kubeconfig, 'status', { parallel: 7, output: 'wide' });
  expect(code).toBe(0);
  expect(fleet.atATime).toBeGreaterThan(1);
  expect(fleet.atATime).toBeLessThanOrEqual(7);
  expect(fleet.commands).toHaveLength(120);
  expect(err.split('\n')).toHaveLength(11);
  expect(err).toContain('… 60 of 120 queried');
  const rows = out.split('\n').filter((line) => line.startsWith('node-'));
  expect(rows).toHaveLength(120);
  expect(rows[9]).toMatch(/^node-10 +default +yes +0 +8s +0\.5\.0 +3\.1\.0 +system +enforce +seine-agent-of-node-10$/);
});

it('continues if nodes may not be listed, and reports what is unknown', async () => {
  const { kubeconfig } = await fleetOf([well('node-1')], { nodesForbidden: true });
  const { code, out } = await asked(kubeconfig);
  expect(out).toContain('* whether nodes lack an agent is not known: the API server answered 403 Forbidden: nodes is forbidden');
  expect(code).toBe(3);
});

it('prints the data of the page for programs', async () => {
  const { kubeconfig } = await fleetOf([well('node-1'), well('node-2', { reply: 'cut', pool: 'canary' })]);
  const { out } = await asked(kubeconfig, 'status', { output: 'json' });
  const answer = JSON.parse(out);
  expect(answer).toMatchObject({
    asked: 2,
    answered: 1,
    nodes: [{ node: 'node-1', pool: 'default', ready: true, verdict: 'no problems', oldestCheckSeconds: 8.5, policy: { mode: 'enforce' } }],
    silent: [{ node: 'node-2', pool: 'canary', why: 'the answer breaks off' }],
    nodesWithoutAgent: [],
  });
  expect(parseYaml((await asked(kubeconfig, 'status', { output: 'yaml' })).out)).toEqual(answer);
});

it('is limited to one pool', async () => {
  const { fleet, kubeconfig } = await fleetOf([well('node-1'), well('node-2', { pool: 'canary' }), well('node-3', { absent: true })]);
  const { code, out } = await asked(kubeconfig, 'status', { pool: 'canary' });
  expect(out).toContain('1 agent: 1 answered');
  expect(code).toBe(0);
  expect(fleet.commands).toHaveLength(1);
  expect(await asked(kubeconfig, 'status', { pool: 'none' })).toMatchObject({
    code: 3,
    err: expect.stringContaining("there is no agent's pod in pool none in namespace seine-system"),
  });
});

it('counts versions', async () => {
  const older = fakeStatus('node-2', { versions: { seine: '0.4.0', node: 'v24.20.0', ovs: null } });
  const { kubeconfig } = await fleetOf([well('node-1'), well('node-2', { reply: { answer: older } }), well('node-3')]);
  const { code, out } = await asked(kubeconfig, 'versions');
  expect(out.split('\n').slice(2)).toEqual([
    'POOL     NODES  VERSION  OPEN VSWITCH  NODE.JS   IMAGE                       FIRST OF THEM',
    'default      2  0.5.0    3.1.0         v24.21.0  seine.invalid/agent:0.27.0  node-1, node-3',
    'default      1  0.4.0    unknown       v24.20.0  seine.invalid/agent:0.27.0  node-2',
  ]);
  expect(code).toBe(0);
});

it('names nodes without enforced policies', async () => {
  const policy = (change: object) => ({ enforcement: 'enforced' as const, objects: 40, mode: 'enforce' as const, ...change });
  const audit = fakeStatus('node-2', { networkPolicy: policy({ mode: 'audit' }) });
  const closed = fakeStatus('node-3', { networkPolicy: policy({ isolatedPods: 3, closedPods: [{ pod: 'a/b', why: 'c' }] }) });
  const { kubeconfig } = await fleetOf([
    well('node-1'),
    well('node-2', { reply: { answer: audit } }),
    well('node-3', { reply: { answer: closed } }),
  ]);
  const { code, out } = await asked(kubeconfig, 'policy');
  expect(out).toContain('! policies are not enforced (1 node: node-2)');
  expect(out).toContain('! pods are blocked (1 node: node-3)');
  expect(out).toMatch(/^default +enforce +2 +40 +15 +1 +0 +0$/m);
  expect(code).toBe(1);
});

it('makes each node test itself, within the time of one', async () => {
  const finding = (state: string, check: string) => ({ check, state, what: `${check} is ${state}`, remedy: 'do something' });
  const sick = JSON.stringify({ node: 'node-2', findings: [finding('ok', 'api.server'), finding('problem', 'tunnel.reach')] });
  const fine = JSON.stringify({ node: 'node-1', findings: [finding('ok', 'api.server'), finding('warning', 'disk')] });
  const { fleet, kubeconfig } = await fleetOf([
    well('node-1', { reply: { answer: fine } }),
    well('node-2', { reply: { answer: sick, code: 1 } }),
  ]);
  const { code, out } = await asked(kubeconfig, 'check', { timeout: 60 });
  expect(fleet.commands[0]).toEqual(['seinectl', 'check', '--json', '--timeout', '57s']);
  expect(out).toMatch(/^default +2 +2 +1 +1 +0$/m);
  expect(out).toContain(['! tunnel.reach (1 node: node-2)', '    tunnel.reach is problem', '    remedy: do something'].join('\n'));
  expect(out).toContain('* disk (1 node: node-1)');
  expect(code).toBe(1);
});

it("removes terminal control sequences from nodes' output", async () => {
  const message = 'gone\u001b[2J\nNo problems.';
  const answer = fakeStatus('node-1', { problems: [{ kind: 'node', about: 'x', message, ageSeconds: 1 }] });
  const { kubeconfig } = await fleetOf([well('node-1', { reply: { answer } })]);
  const { out } = await asked(kubeconfig);
  expect(out).not.toContain('\u001b');
  expect(out.split('\n')).not.toContain('No problems.');
});

it('finds the kubeconfig like kubectl, and reports errors in it', async () => {
  const { kubeconfig } = await fleetOf([well('node-1')]);
  expect(await asked(kubeconfig, 'status', { context: 'away' })).toMatchObject({
    code: 3,
    err: expect.stringContaining('no whole answer from the API server'),
  });
  expect(await asked(kubeconfig, 'status', { context: 'nowhere' })).toMatchObject({
    code: 2,
    err: 'seinectl: kubeconfig: there is no context nowhere; there are: here, away',
  });
  expect(await asked(join(folder, 'missing'))).toMatchObject({ code: 2, err: expect.stringMatching(/^seinectl: kubeconfig: .*ENOENT/) });
  const quiet = { room: { width: 80, paint: plain }, line: () => undefined, remark: () => undefined };
  const options: LookOptions = { namespace: 'seine-system', timeout: 20, parallel: 100, output: 'table' };
  const withEnv = async (env: Readonly<Record<string, string>>): Promise<number> => await look('status', options, quiet, env);
  expect(await withEnv({ KUBECONFIG: `${join(folder, 'missing')}:${kubeconfig}` })).toBe(0);
  expect(await withEnv({ HOME: folder })).toBe(2);
});
