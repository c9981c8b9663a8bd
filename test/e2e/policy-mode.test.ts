import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parse, stringify } from 'yaml';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll } from '../../lab/demo/workload.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import { DatagramStream } from '../../lab/probe/datagram-stream.ts';
import { plain } from '../../src/seinectl/paint.ts';
import { run } from '../../src/seinectl/program.ts';
import { ConvergeLab, until } from '../support/converge-lab.ts';
import { denyAll, namespaceManifest, networkPolicy } from '../support/guarded-lab.ts';
import { LoneServer } from '../support/lone-server.ts';
import { slowness } from '../support/test-datapath.ts';

/** The policy mode of a node, changed by its annotation, with real packets. */
let lab: ConvergeLab;
let server: PodStatusLine;
let node: number;

const signal = () => AbortSignal.timeout(20_000 * slowness);
const followMs = 10_000;
const denyIngress = networkPolicy('demo', 'deny-all', { ...denyAll, policyTypes: ['Ingress'] });

beforeAll(async () => {
  lab = await ConvergeLab.start(2);
  await lab.startPods();
  server = lab.pod('web-1');
  node = lab.plan.nodes.findIndex(({ name }) => name === server.node) + 1;
}, 300_000);
afterAll(async () => {
  await lab?.remove();
});

async function annotate(mode: string | null): Promise<void> {
  const body = { metadata: { annotations: { 'seine.dev/policy-mode': mode } } };
  await lab.api.send(
    { method: 'PATCH', path: `/api/v1/nodes/${server.node}`, body, contentType: 'application/merge-patch+json' },
    signal(),
  );
}

async function events(reason: string): Promise<readonly string[]> {
  const { items } = (await lab.api.send({ method: 'GET', path: '/api/v1/namespaces/default/events' }, signal())) as {
    items: { reason: string; message?: string; note?: string }[];
  };
  return items.filter((event) => event.reason === reason).map(({ message, note }) => message ?? note ?? '');
}

async function answers(): Promise<readonly string[]> {
  const asked = [lab.pod('client-1'), lab.pod('client-2')].flatMap((from) => server.ips.map((ip) => lab.reach(from, ip)));
  return [...new Set((await Promise.all(asked)).map(({ is }) => is))];
}

async function untilAnswers(is: string): Promise<void> {
  let seen = '';
  await until(
    async () => (seen = (await answers()).join()) === is,
    followMs,
    () => `answers are ${seen}, not ${is}`,
  );
}

/** Packets that the flows of denied ones have counted, by their fate. */
async function denied(): Promise<{ readonly dropped: boolean; readonly packets: number }> {
  const rows = (await Promise.all([46, 90].map(rowsOf))).flat();
  const ofDenied = rows.filter((row) => row.includes('reg0=0xc00/0x1c00') && row.includes('priority=200,'));
  const packets = ofDenied.reduce((sum, row) => sum + Number(/n_packets=(\d+)/.exec(row)?.[1]), 0);
  expect(ofDenied).toHaveLength(2);
  return { dropped: ofDenied.every((row) => row.includes('actions=drop')), packets };
}

/** Entry flows that send pods' packets to policy. */
async function policed(): Promise<number> {
  return (await rowsOf(80)).filter((row) => row.includes('goto_table:81')).length;
}

async function rowsOf(table: number): Promise<readonly string[]> {
  const dump = await lab.exec(node, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int', `table=${table}`);
  return dump.split('\n').filter((line) => line.includes('actions='));
}

/** All flows of the bridge except those of the entry tables and learned ones, without counters. */
async function otherFlows(): Promise<readonly string[]> {
  return (await lab.flows(node)).map(({ text }) => text).filter((text) => !/table=(36|80),|cookie=0x1ff/.test(text));
}

async function seinectl(...words: readonly string[]): Promise<readonly string[]> {
  const out: string[] = [];
  const line = (text: string) => void out.push(text);
  const terminal = { room: { width: Number.POSITIVE_INFINITY, paint: plain }, line, remark: line };
  await run(['--socket', nodePaths(lab.plan.dir, server.node).apiSocket, ...words], terminal, Readable.from([]));
  return out;
}

/** The agent's copies of objects are not written with each change: waits until the last line about this one is as expected. */
async function untilOnDisk(kind: string, isSo: (line: string) => boolean): Promise<void> {
  const path = join(nodePaths(lab.plan.dir, server.node).stateDir, 'kube', `${kind}.jsonl`);
  const about = kind === 'node' ? server.node : 'deny-all';
  const holds = async (): Promise<boolean> => {
    const lines = (await readFile(path, 'utf8').catch(() => '')).split('\n'); // not there before the first
    return isSo(lines.findLast((line) => line.includes(about)) ?? '');
  };
  await until(holds, 30_000, () => `${path} is not as it should be`);
}

it("is that of the ConfigMap seine-live on all nodes, and the annotation's above it", {
  timeout: 180_000 * slowness,
}, async () => {
  const collection = '/api/v1/namespaces/seine-system/configmaps';
  await createAll(lab.api, [namespaceManifest('seine-system'), denyIngress], signal());
  await untilAnswers('TIMEOUT');
  const settings = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'seine-live' }, data: { 'policy.mode': 'audit' } };
  await createAll(lab.api, [{ collection, object: settings }], signal());
  await untilAnswers('OK');
  await annotate('enforce');
  await untilAnswers('TIMEOUT');
  await annotate(null);
  await untilAnswers('OK');
  await lab.api.send({ method: 'DELETE', path: `${collection}/seine-live` }, signal());
  await untilAnswers('TIMEOUT');
  await lab.api.send({ method: 'DELETE', path: '/apis/networking.k8s.io/v1/namespaces/demo/networkpolicies/deny-all' }, signal());
});

it('drops, counts or bypasses, as the annotation says, and drops again without it', { timeout: 180_000 * slowness }, async () => {
  await untilAnswers('OK');
  await createAll(lab.api, [denyIngress], signal());
  await untilAnswers('TIMEOUT');
  expect(await policed()).toBeGreaterThan(0);
  expect(await denied()).toMatchObject({ dropped: true });

  await annotate('audit');
  await untilAnswers('OK');
  const audited = await denied();
  expect(audited.dropped).toBe(false);
  expect(await answers()).toEqual(['OK']);
  await until(
    async () => (await denied()).packets > audited.packets,
    followMs,
    () => 'what passes is not counted as denied',
  );

  await annotate('off');
  await until(
    async () => (await events('PolicyModeChanged')).some((message) => message.includes('is off, and was audit')),
    followMs,
    () => 'no event says that the mode is off',
  );
  await until(
    async () => (await policed()) === 0,
    followMs,
    () => 'there is a pod that is policed',
  );
  expect(await answers()).toEqual(['OK']);

  await annotate(null);
  await untilAnswers('TIMEOUT');
  expect(await denied()).toMatchObject({ dropped: true });
});

it('stays as configured if the annotation is invalid, and is reported', { timeout: 60_000 * slowness }, async () => {
  await annotate('Off');
  await until(
    async () => (await events('PolicyModeInvalid')).length > 0,
    followMs,
    () => 'no event names the annotation',
  );
  expect(await events('PolicyModeInvalid')).toEqual([
    'the Node\'s annotation seine.dev/policy-mode is "Off", which is not one of enforce, audit, off: enforce is in force',
  ]);
  expect((await lab.metrics(node)).get('node_warnings')).toBeGreaterThan(0);
  expect(await answers()).toEqual(['TIMEOUT']);
  await annotate('off');
  await untilAnswers('OK');
  expect(await events('PolicyModeChanged')).toContain('the policy mode of this node is off, and was enforce: no pod is policed');
});

it('does nothing to a pod whose policies are suspended, whatever is away, until that ends', { timeout: 180_000 * slowness }, async () => {
  await annotate(null);
  await untilAnswers('TIMEOUT');
  const pod = `demo/${server.name}`;
  const before = await otherFlows();
  await seinectl('policy', 'suspend', '--pod', pod, '--for', '10m', '--reason', 'orders fail');
  await untilAnswers('OK');
  expect(await otherFlows()).toEqual(before);
  expect((await seinectl('policy', 'pod', pod)).join()).toMatch(/ingress: suspended, nothing is denied until .*: orders fail/);
  expect((await seinectl('policy', 'list')).join()).toContain(`suspended: pod ${pod} until`);
  expect((await seinectl('status')).join()).toContain(`policies do nothing to pod ${pod}`);
  expect((await lab.metrics(node)).get('policy_suspensions')).toBe(1);
  await expect.poll(() => events('PolicySuspended'), { timeout: followMs }).toHaveLength(1);
  expect(lab.log(node).find(({ msg }) => msg === 'policy is suspended')).toMatchObject({ target: `pod ${pod}`, reason: 'orders fail' });

  await untilOnDisk('networkpolicy', (line) => line.includes('deny-all'));
  await untilOnDisk('node', (line) => line !== '' && !line.includes('"off"'));
  await lab.apiServer('stop');
  await lab.agent(node, 'kill');
  await lab.agent(node, 'start');
  await lab.untilReady(node);
  expect(await answers()).toEqual(['OK']);
  await seinectl('policy', 'resume', '--pod', pod);
  await untilAnswers('TIMEOUT');
  await seinectl('policy', 'suspend', '--node', '--for', '5s', '--reason', 'without the API server');
  await untilAnswers('OK');
  await untilAnswers('TIMEOUT');
  await expect.poll(() => seinectl('policy', 'list'), { timeout: followMs }).not.toContain('suspended');
});

it('leaves a pod open that was opened by hand while no agent ran, as documented, and names it', {
  timeout: 180_000 * slowness,
}, async () => {
  await untilAnswers('TIMEOUT');
  await lab.agent(node, 'kill');
  const page = await readFile(join(import.meta.dirname, '../../docs/troubleshooting.md'), 'utf8');
  const [, lines = ''] = /^```sh\n(name=.*?)^```$/ms.exec(page) ?? [];
  expect(lines.match(/ovs-ofctl .*hard_timeout=1800/g)).toHaveLength(2);
  await lab.exec(node, 'sh', '-e', '-c', lines.replaceAll('NAMESPACE', 'demo').replaceAll('=NAME', `=${server.name}`));
  await untilAnswers('OK');
  await lab.exec(node, 'ovs-ofctl', '-O', 'OpenFlow15', 'add-flow', 'br-int', 'cookie=0x1fe0000000000,priority=251,table=36,actions=drop');
  await lab.apiServer('start'); // nothing is removed before every source is synced
  await lab.agent(node, 'start');
  await lab.untilReady(node);
  await expect
    .poll(async () => (await seinectl('status')).join(), { timeout: 30_000 })
    .toContain(`flows that an operator added open pod demo/${server.name}`);
  const endless = async () => (await rowsOf(36)).some((row) => row.includes('priority=251'));
  await expect.poll(endless, { timeout: 30_000 }).toBe(false);
  await untilAnswers('OK');
  expect((await rowsOf(36)).concat(await rowsOf(80)).filter((row) => row.includes('hard_timeout=1800'))).toHaveLength(2);
  await lab.exec(node, 'ovs-ofctl', '-O', 'OpenFlow15', 'del-flows', 'br-int', 'cookie=0x1fe0000000000/-1');
  await untilAnswers('TIMEOUT');
});

it('keeps established connections if configured, and denies new ones', { timeout: 120_000 * slowness }, async () => {
  const path = nodePaths(lab.plan.dir, server.node).agentConfig;
  const config = parse(await readFile(path, 'utf8')) as Readonly<Record<string, unknown>>;
  await writeFile(path, stringify({ ...config, policy: { liveConnections: 'keep' } }));
  await lab.api.send({ method: 'DELETE', path: '/apis/networking.k8s.io/v1/namespaces/demo/networkpolicies/deny-all' }, signal());
  await untilAnswers('OK');
  await lab.agent(node, 'stop');
  await lab.agent(node, 'start');
  await lab.untilReady(node);
  // A client that keeps sending requests, and servers that send without requests.
  const asked = await Promise.all(
    server.ips.map((address) => DatagramStream.start({ from: lab.pod('client-1').netns, address, port: 80 })),
  );
  const alone = await Promise.all((['ipv4', 'ipv6'] as const).map((family) => LoneServer.start(server, lab.pod('client-2'), family)));
  try {
    const live = () => asked.every(({ isAnswered }) => isAnswered) && alone.every(({ isReceived }) => isReceived);
    await expect.poll(live, { timeout: followMs }).toBe(true);
    await createAll(lab.api, [denyIngress], signal());
    await untilAnswers('TIMEOUT');
    const goals = asked.map(({ answered }) => answered + 50);
    await expect.poll(() => asked.every(({ answered }, at) => answered >= (goals[at] ?? 0)) && live(), { timeout: followMs }).toBe(true);
  } finally {
    for (const each of [...asked, ...alone]) each.close();
  }
});
