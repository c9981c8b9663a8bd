import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type FakeAgent, FakeFleet } from '../../../test/support/fake-fleet.ts';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import type { FlowLogState, FlowSummaries, FlowView } from '../../api/flow-log.ts';
import type { FlowQuery } from './flow-query.ts';
import { flowsCluster } from './flows-cluster.ts';
import { LossReport } from './flows-here.ts';

let folder: string;
let fleet: FakeFleet | undefined;

beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-flows-'))));
afterEach(async () => {
  await fleet?.close();
  rmSync(folder, { recursive: true, force: true });
});

const stateOf = (node: string, meter = 0, enabled = true): FlowLogState => ({
  ...{ node, enabled, sources: ['opened'], skipped: 0 },
  losses: { sampling: 0, meter, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 },
});
const opened: FlowView = {
  ...{ node: 'node-1', number: 1, time: '2026-11-29T14:02:12.010Z', event: 'opened', verdict: 'allowed', reporter: 'source' },
  ...{ family: 'ipv4', protocol: 'TCP' },
  source: { address: '10.0.0.5', port: 40_000, kind: 'pod', namespace: 'shop', name: 'web-0' },
  destination: { address: '10.0.1.5', port: 80, kind: 'unknown' },
};
const received: FlowView = {
  ...opened,
  ...{ node: 'node-2', reporter: 'destination' },
  destination: { ...opened.destination, kind: 'pod', namespace: 'shop', name: 'db-0' },
  ingress: { verdict: 'allowed', by: ['shop/db-clients spec.ingress[0]'] },
};

function lines(state: FlowLogState, ...flows: readonly FlowView[]): string {
  return [{ state }, ...flows.map((flow) => ({ flow })), { state }].map((line) => JSON.stringify(line)).join('\n');
}

async function flows(agents: readonly FakeAgent[], options: Partial<FlowQuery> = {}) {
  fleet = new FakeFleet({ agents, objects: {} });
  const server = `http://127.0.0.1:${await fleet.listen()}`;
  const kubeconfig = join(folder, 'kubeconfig');
  const here = { clusters: [{ name: 'here', cluster: { server } }], users: [{ name: 'me', user: { token: 'secret' } }] };
  const contexts = [{ name: 'here', context: { cluster: 'here', user: 'me' } }];
  writeFileSync(kubeconfig, JSON.stringify({ ...here, contexts, 'current-context': 'here' }));
  const { terminal, out, err } = recordingTerminal();
  const query: FlowQuery = { filters: [], agentsNamespace: 'seine-system', kubeconfig, output: 'table', ...options };
  const code = await flowsCluster(query, terminal, {});
  return { code, out, err, commands: fleet.commands, requests: fleet.requests };
}

it.each([
  ['', false],
  [', of agents without relay', true],
])('joins the records of both nodes, and shows the losses of each%s', async (_, isOld) => {
  const { code, out, err, commands, requests } = await flows(
    [
      { node: 'node-1', isOld, reply: { answer: lines(stateOf('node-1', 3), opened) } },
      { node: 'node-2', isOld, reply: { answer: lines(stateOf('node-2'), received) } },
    ],
    { filters: [['to-pod', 'shop/db']], since: 60 },
  );
  if (isOld) expect(commands.at(-1)).toEqual(['seinectl', 'flows', '--raw', '--to-pod', 'shop/db', '--since', '60s']);
  else expect(requests).toEqual(Array(2).fill('/v1/flow-log?to-pod=shop%2Fdb&since=60'));
  expect(out).toEqual([
    '14:02:12.010 opened  shop/web-0:40000 -> shop/db-0:80 TCP  ingress: shop/db-clients spec.ingress[0]  node-1 and node-2',
  ]);
  expect(err).toContain('(node-1: 3 openings not recorded: beyond the rate of their pod)');
  expect(code).toBe(0);
});

it('sums up the connections of all nodes, each once', async () => {
  const item = { source: 'shop/web', destination: 'shop/db', protocol: 'TCP', port: 80, verdict: 'allowed', connections: 4 } as const;
  const answer = (node: string): string => {
    const items = [{ ...item, reporter: node === 'node-1' ? ('source' as const) : ('destination' as const) }];
    const summary: FlowSummaries = { state: stateOf(node), since: '2026-11-29T14:00:00Z', items, others: 0 };
    return JSON.stringify(summary);
  };
  const agents = ['node-1', 'node-2'].map((node): FakeAgent => ({ node, isOld: true, reply: { answer: answer(node) } }));
  const { code, out, commands } = await flows(agents, { summary: { what: 'top', by: 'pair', seconds: 60 } });
  expect(commands.at(-1)).toEqual(['seinectl', 'flows', '--raw', 'top', '--for', '60s']);
  expect(out.map((line) => line.trim())).toEqual(['CONNECTIONS  NAME', '4  shop/web -> shop/db']);
  expect(code).toBe(0);
});

it('is incomplete if an agent does not answer, or answers something else', async () => {
  const { code, out, err } = await flows([
    { node: 'node-1', reply: { answer: lines(stateOf('node-1'), opened) } },
    { node: 'node-2', reply: { answer: '{"pods":[]}' } },
  ]);
  expect(out).toHaveLength(1);
  expect(err.join('\n')).toContain('the agent may be older than this seinectl');
  expect(code).toBe(3);
});

it('asks for connections that are open now', async () => {
  const old = { node: 'node-1', isOld: true, reply: { answer: lines(stateOf('node-1'), opened) } };
  expect((await flows([old], { now: true })).commands.at(-1)).toEqual(['seinectl', 'flows', '--raw', '--now']);
  await fleet?.close();
  expect((await flows([{ ...old, isOld: false }], { now: true })).requests).toEqual(['/v1/flow-log?now=true']);
});

it('does not show the records of an agent that ignores the question as open connections', async () => {
  const open = { ...received, number: -1 };
  const { code, out, err } = await flows(
    [
      { node: 'node-1', reply: { answer: lines(stateOf('node-1'), opened) } },
      { node: 'node-2', reply: { answer: lines(stateOf('node-2'), open) } },
    ],
    { now: true },
  );
  expect([code, out]).toEqual([3, [expect.stringContaining('node-2')]]);
  expect(err.join('\n')).toContain('--now: the agent does not list open connections, its release is older than 0.29 (1 node: node-1)');
});

it('reports that the log is off everywhere', async () => {
  const { code, err } = await flows([{ node: 'node-1', reply: { answer: lines(stateOf('node-1', 0, false)) } }]);
  expect(err).toContain('(node-1: the flow log is off; flowLog.enabled turns it on)');
  expect(code).toBe(1);
});

it('asks one node alone, and names one that has no agent', async () => {
  const agents: readonly FakeAgent[] = [
    { node: 'node-1', reply: { answer: lines(stateOf('node-1'), opened) } },
    { node: 'node-2', reply: 'exit' },
  ];
  expect((await flows(agents, { node: 'node-1' })).code).toBe(0);
  await fleet?.close();
  const { code, err } = await flows(agents, { node: 'node-9' });
  expect([code, err]).toEqual([2, ['seinectl: node node-9 has no agent']]);
});

it('reports a log that is off from the second answer on: an agent that starts does not know its settings yet', () => {
  const { terminal, err } = recordingTerminal();
  const report = new LossReport(terminal, true);
  const losses = { sampling: 0, meter: 0, rate: 0, queue: 0, ends: 0, denied: 0, names: 0, kernel: 0, disk: 0 };
  const see = (enabled: boolean): void => report.see({ node: 'node-1', enabled, sources: [], skipped: 0, losses });
  for (const enabled of [true, false, true, false]) see(enabled);
  expect(err).toEqual([]);
  see(false);
  expect(err).toEqual(['(node-1: the flow log is off; flowLog.enabled turns it on)']);
});
