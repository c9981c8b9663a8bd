import { rmSync } from 'node:fs';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { nodePaths } from '../../lab/plan/names.ts';
import type { HistoryEvent } from '../../src/api/history.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';

/** History of a node: a pod's life, foreign changes, agents that are killed and started again. */
let lab: ConvergeLab;

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods();
});
afterAll(async () => await lab?.remove());

async function seinectl(...args: readonly string[]) {
  const lines: string[] = [];
  const remarks: string[] = [];
  const terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text: string) => void lines.push(text),
    remark: (text: string) => void remarks.push(text),
  };
  const socket = nodePaths(lab.plan.dir, lab.node(1).name).apiSocket;
  const code = await run(['--socket', socket, ...args], terminal, Readable.from([]));
  return { code, lines, remarks };
}

async function timeline(...args: readonly string[]): Promise<readonly HistoryEvent[]> {
  const { code, lines, remarks } = await seinectl('timeline', ...args, '-o', 'json');
  expect([code, remarks]).toEqual([0, []]);
  return lines.map((line) => JSON.parse(line) as HistoryEvent);
}

const kindsOf = (events: readonly HistoryEvent[]): string[] => events.map(({ kind }) => kind);

it('shows the life of a pod across a killed agent, and the time without an agent', async () => {
  const pod = lab.pods.find(({ node }) => node === lab.node(1).name);
  if (!pod) throw new Error('a pod of the first node is wanted');
  const name = `${pod.namespace}/${pod.name}`;
  // Some events are found by comparison, once a second.
  await expect
    .poll(async () => kindsOf(await timeline('pod', name)), { timeout: 20_000 })
    .toEqual(expect.arrayContaining(['object.added', 'pod.flows', 'pod.attached', 'cni.add']));
  const before = await timeline('pod', name);
  expect(before.find(({ kind }) => kind === 'cni.add')?.text).toMatch(/^ADD answered after .* ms: /);

  await lab.agent(1, 'kill');
  await lab.agent(1, 'start');
  await lab.untilReady(1);
  const after = await timeline('pod', name);
  expect(after.slice(0, before.length)).toEqual(before);
  const ofNode = await timeline('node', lab.node(1).name);
  expect(kindsOf(ofNode)).toEqual(
    expect.arrayContaining(['agent.started', 'agent.absent', 'agent.ready', 'agent.synced', 'bridge.connected']),
  );
  expect(kindsOf(ofNode).filter((kind) => kind === 'agent.started')).toHaveLength(2);
}, 120_000);

it('shows a foreign change with the pod that it concerns, and its repair', async () => {
  const pod = lab.pods.find(({ node }) => node === lab.node(1).name);
  if (!pod) throw new Error('a pod of the first node is wanted');
  await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'table=classify');
  await until(
    async () => kindsOf(await timeline()).includes('drift.repaired'),
    20_000,
    () => 'the repair is not recorded',
  );
  const events = await timeline('pod', `${pod.namespace}/${pod.name}`);
  expect(kindsOf(events).some((kind) => kind === 'drift.found' || kind === 'drift.lost')).toBe(true);
}, 60_000);

it('is replayed with equal digests, while pods and Services change', async () => {
  const folder = `${nodePaths(lab.plan.dir, lab.node(1).name).stateDir}/history`;
  const replayed = async () => {
    const { code, lines } = await seinectl('replay', folder, '-o', 'json');
    return {
      code,
      ...(JSON.parse(lines.join('\n')) as { readonly rounds: number; readonly compared: number; readonly difference?: object }),
    };
  };
  const before = await replayed();
  expect(before.difference).toBeUndefined();
  expect(before.code).toBe(0);
  expect(before.compared).toBeGreaterThan(0);
  const [pod] = lab.pods.filter(({ node }) => node === lab.node(1).name);
  if (!pod) throw new Error('a pod of the first node is wanted');
  await lab.api.send({ method: 'DELETE', path: `/api/v1/namespaces/${pod.namespace}/pods/${pod.name}` }, AbortSignal.timeout(10_000));
  await until(
    async () => (await replayed()).rounds > before.rounds,
    20_000,
    () => 'the removal is not recorded',
  );
  const { code, difference } = await replayed();
  expect([code, difference]).toEqual([0, undefined]);
}, 60_000);

it('answers for times before, during and after a policy, also from the folder', async () => {
  const pod = lab.pods.filter(({ node, name: each }) => node === lab.node(1).name && !each.startsWith('host-')).at(-1);
  if (!pod) throw new Error('a second pod of the first node is wanted');
  const name = `${pod.namespace}/${pod.name}`;
  const folder = `${nodePaths(lab.plan.dir, lab.node(1).name).stateDir}/history`;
  const at = (ms: number) => ['--at', new Date(ms).toISOString()];
  const traceAt = async (ms: number, ...more: readonly string[]) =>
    await seinectl('trace', 'outside', name, '80', '--family', 'ipv4', ...at(ms), ...more);
  const policies = `/apis/networking.k8s.io/v1/namespaces/${pod.namespace}/networkpolicies`;
  const policy = {
    ...{ apiVersion: 'networking.k8s.io/v1', kind: 'NetworkPolicy', metadata: { name: 'deny', namespace: pod.namespace } },
    spec: {
      ...{ podSelector: {}, policyTypes: ['Ingress'] },
      ingress: [{ from: [{ ipBlock: { cidr: '203.0.113.0/24' } }], ports: [{ protocol: 'TCP', port: 443 }] }],
    },
  };
  const untilVerdict = async (code: number): Promise<number> => {
    let [ms, lastAnswer] = [Date.now(), ''];
    await until(
      async () => {
        ms = Date.now();
        const answer = await traceAt(ms);
        lastAnswer = [...answer.lines.slice(-1), ...answer.remarks].join();
        return answer.code === code;
      },
      20_000,
      () => `no record by which the trace ends with ${code}: ${lastAnswer}`,
    );
    return ms;
  };
  const before = await untilVerdict(0);
  await lab.api.send({ method: 'POST', path: policies, body: policy }, AbortSignal.timeout(10_000));
  const during = await untilVerdict(1);
  await lab.api.send({ method: 'DELETE', path: `${policies}/deny` }, AbortSignal.timeout(10_000));
  const after = await untilVerdict(0);
  const codes = [];
  for (const ms of [before, during, after]) codes.push((await traceAt(ms)).code);
  for (const ms of [before, during]) codes.push((await traceAt(ms, '--bundle', folder)).code);
  expect(codes).toEqual([0, 1, 0, 0, 1]);
  await until(
    async () => (await seinectl('policy', 'pod', name, ...at(during))).lines[1] === `ingress: isolated by ${pod.namespace}/deny`,
    5_000,
    () => 'the policy of that time is not named',
  );
  const explained = async (from: string, port: string, ms: number) => {
    const { code, lines } = await seinectl('policy', 'explain', from, name, port, ...at(ms));
    return [code, lines[1]?.replace(/^.*: (?=allowed|denied)/, '')];
  };
  expect(await explained('203.0.113.9', '443', during)).toEqual([0, `allowed, by ${pod.namespace}/deny spec.ingress[0]`]);
  expect(await explained('203.0.113.9', '80', during)).toEqual([1, `denied, no rule allows it; isolated by ${pod.namespace}/deny`]);
  expect(await explained('203.0.113.9', '80', before)).toEqual([0, 'allowed, not isolated']);
  expect((await seinectl('explain', 'pod', name, ...at(during))).lines[2]).toContain(`It had ${pod.ips[0]}`);
  const tooEarly = await traceAt(1);
  expect([tooEarly.code, tooEarly.remarks.join()]).toEqual([2, expect.stringContaining('is before the oldest record')]);
}, 120_000);

it('is followed as it happens', async () => {
  const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
  const stop = new AbortController();
  const kinds: string[] = [];
  const following = (async () => {
    const path = `/v1/timeline?from=${Date.now()}&follow=1`;
    for await (const line of new AgentClient(apiSocket).lines(path, 'GET', stop.signal))
      if (line !== '') kinds.push((JSON.parse(line) as HistoryEvent).kind);
  })().catch(() => undefined); // it ends with the signal
  await seinectl('pause', '--for', '1m');
  await seinectl('resume');
  await until(
    () => kinds.includes('repair.resumed'),
    5_000,
    () => `only ${kinds.join()} followed`,
  );
  expect(kinds).toContain('repair.paused');
  stop.abort();
  await following;
}, 30_000);

it('is read without an agent, and begins again in a folder that was deleted', async () => {
  await lab.agent(1, 'stop');
  const folder = `${nodePaths(lab.plan.dir, lab.node(1).name).stateDir}/history`;
  const { code, lines } = await seinectl('timeline', '--folder', folder);
  expect([code, lines.at(-1)]).toEqual([0, expect.stringContaining('the agent stops')]);
  expect((await seinectl('timeline')).code).toBe(3);
  rmSync(folder, { recursive: true });
  await lab.agent(1, 'start');
  await lab.untilReady(1);
  await until(
    async () => kindsOf(await timeline()).includes('agent.ready'),
    20_000,
    () => 'the history does not begin again',
  );
}, 120_000);
