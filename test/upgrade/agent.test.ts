import { execFile } from 'node:child_process';
import { readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { crc32 } from 'node:zlib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { clusterIps, type DemoManifest, demoNamespace, podManifest } from '../../lab/demo/workload.ts';
import { agentProgram, packageRoot } from '../../lab/machine/installation.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { agentProcess, startAgent } from '../../lab/node/agent.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { askStatus } from '../../lab/up.ts';
import { standingPortPattern } from '../../src/dataplane/targets/links/pre-plugged-links.ts';
import { type Route, servicePort, Traffic, type TrafficCount } from '../reliability/traffic.ts';
import { ConvergeLab, type DumpedFlow, until } from '../support/converge-lab.ts';
import { type BuiltRelease, builtRelease, releaseOf } from '../support/releases.ts';
import { setUrgency, urgent } from '../support/urgency.ts';
import { DeniedTraffic, deniedLabels, denyByClusterPolicy, untilDenied } from './denied-traffic.ts';
import { replaceAgentOf, startAgentOf } from './replaced-agent.ts';

const execute = promisify(execFile);
const hertz = 60;
/** The userspace data path of a busy host loses packets now and then; an upgrade that loses packets always does. */
const triesMax = 4;
/** Time between a dump and the reading of the clock. */
const slackMs = 500;
const patienceMs = 30_000;
/** In the ranges that a lab allows; the outside network routes them to the node. */
const externalIPs = ['198.18.9.1', '2001:db8:198::9'];
const containers = [{ name: 'responder', image: 'responder', ports: [{ containerPort: 80 }] }];

/** Agents before 0.24.0 do not enforce ClusterNetworkPolicies. */
const knowsClusterPolicies = !/^0\.(?:\d|1\d|2[0-3])\./.test(releaseOf(process.env['SEINE_TEST_RELEASE']).version);

/** Agents up to 0.2.0 end on these. */
const keysSince030 = ['cniBinDir', 'cniConfDir'];

type Release = 'previous' | 'this';

let lab: ConvergeLab;
let putBack: (() => void) | undefined;
let previous: BuiltRelease;
let routes: readonly Route[];
let pods = 0;

beforeAll(async () => {
  previous = await builtRelease(releaseOf(process.env['SEINE_TEST_RELEASE']));
  lab = await ConvergeLab.start(2, previous.agent, { withoutAgentKeys: keysSince030, clusterPolicies: true });
  const denied = { plan: lab.plan, namespace: demoNamespace, name: 'denied', node: lab.node(2).name, labels: deniedLabels, port: 80 };
  await lab.startPods([podManifest(denied)]);
  const from = lab.pod('client-1');
  const to = ['web-1', 'web-2'].map((name) => lab.pod(name));
  const port = (protocol: string) => ({ name: protocol.toLowerCase(), port: servicePort, targetPort: servicePort, protocol });
  const spec = {
    selector: { app: 'web' },
    ports: ['TCP', 'UDP'].map(port),
    ipFamilyPolicy: 'RequireDualStack',
    ipFamilies: ['IPv4', 'IPv6'],
    externalIPs,
  };
  await lab.api.send(
    {
      method: 'POST',
      path: '/api/v1/namespaces/demo/services',
      body: { apiVersion: 'v1', kind: 'Service', metadata: { name: 'echo' }, spec },
    },
    AbortSignal.timeout(patienceMs),
  );
  routes = [
    ...to.map(({ name, ips }) => ({ name, from, addresses: ips, service: false })),
    { name: 'Service', from, addresses: await clusterIps(lab.api, 'echo', AbortSignal.timeout(patienceMs)), service: true },
    { name: 'external address from the node', from: lab.node(1), addresses: externalIPs, service: true },
    { name: 'external address from outside', from: lab.plan.external, addresses: externalIPs, service: true },
  ];
  for (const [at, address] of externalIPs.entries())
    await runIn(
      lab.plan.external.netns,
      'ip',
      ['route', 'replace', address, 'via', lab.node(1).ips[at] ?? ''],
      {},
      AbortSignal.timeout(patienceMs),
    );
  for (const pod of to) await lab.untilReached(from, pod);
  // Each endpoint of each family by UDP, at least: TCP may be translated by groups.
  const translations = async () => (await lab.flows(1)).filter(({ text }) => text.includes(`:${servicePort})`)).length;
  await until(
    async () => (await translations()) >= 4,
    patienceMs,
    () => 'the Service is not served',
  );
  await denyByClusterPolicy(lab);
  putBack = setUrgency(process.pid, urgent);
  for (const pid of await lab.switchPids()) setUrgency(pid, urgent);
});
afterAll(async () => {
  putBack?.();
  await lab?.remove();
});

function install(release: Release): void {
  const plugin = join(labPaths(lab.plan.dir).bin, 'seine');
  rmSync(plugin, { force: true });
  symlinkSync(release === 'previous' ? previous.plugin : join(packageRoot, 'dist', 'bin', 'seine'), plugin);
}

/** State of a node that an upgrade must keep. */
async function look() {
  const leases = (await askStatus(lab.plan.dir)).pods.map(({ name, ips }) => `${name} ${ips.join(' ')}`).toSorted();
  return { flows: await lab.flows(1), ofPorts: await lastingPorts(), leases, atMs: performance.now() };
}

/** Without free ones for future pods: depending on the release, a node has some or none. */
async function lastingPorts(): Promise<Readonly<Record<string, number>>> {
  return Object.fromEntries(Object.entries(await lab.ofPorts(1)).filter(([name]) => !standingPortPattern.test(name)));
}

type Look = Awaited<ReturnType<typeof look>>;

/** Replaces the agent of node 1 by that of a release, and waits until it has observed everything. */
async function replaceAgent(release: Release): Promise<number> {
  return await replaceAgentOf(lab, 1, programOf(release));
}

async function startAndAwait(release: Release): Promise<number> {
  return await startAgentOf(lab, 1, programOf(release));
}

function programOf(release: Release): string {
  return release === 'previous' ? previous.agent : agentProgram();
}

function textsOf({ flows }: Look): ReadonlySet<string> {
  return new Set(flows.map(({ text }) => text));
}

/** Flows that both releases desire, and that were rewritten all the same. */
function rewritten(before: Look, after: Look): readonly string[] {
  const ages = new Map(before.flows.map(({ text, ageMs }) => [text, ageMs]));
  const passedMs = after.atMs - before.atMs - slackMs;
  const isYoung = ({ text, ageMs }: DumpedFlow): boolean => ages.has(text) && ageMs < (ages.get(text) ?? 0) + passedMs;
  return after.flows.filter(isYoung).map(({ text }) => text);
}

async function replaceUnderTraffic(release: Release): Promise<TrafficCount> {
  const servers = ['web-1', 'web-2'].map((name) => lab.pod(name));
  const traffic = await Traffic.start(servers, routes, hertz);
  const startedMs = performance.now();
  await expect.poll(() => traffic.silentSince(startedMs), { timeout: patienceMs }).toEqual([]);
  const from = lab.pod('denied');
  const addresses = servers.flatMap(({ ips }) => ips);
  if (knowsClusterPolicies) await untilDenied(from, addresses, servicePort);
  const before = await look();
  const denied = new DeniedTraffic(from, addresses, servicePort);
  const readyMs = await replaceAgent(release);
  const deniedCount = await denied.stop();
  const after = await look();
  const count = await traffic.stop();
  expect(deniedCount.sent).toBeGreaterThan(0);
  if (knowsClusterPolicies) expect(deniedCount.answered).toBe(0);
  const known = textsOf(before);
  const others = [...textsOf(after)].filter((text) => !known.has(text));
  const sent = count.streams.reduce((sum, stream) => sum + stream.sent, 0);
  const lost = count.streams.reduce((sum, stream) => sum + stream.lost, 0);
  console.log(
    `to ${release}: ready after ${readyMs} ms, ${after.flows.length} flows, ${others.length} of them new, lost ${lost} of ${sent}, broken ${count.broken}`,
    losses(count),
  );
  expect(rewritten(before, after)).toEqual([]);
  expect({ ofPorts: after.ofPorts, leases: after.leases }).toEqual({ ofPorts: before.ofPorts, leases: before.leases });
  expect(lab.log(1).filter(({ msg }) => /journal.*damaged|cannot be read/.test(msg))).toEqual([]);
  return count;
}

/** A pod starts through the present plugin and agent, is reached, and is deleted. */
async function startAndStopPod(more: object = {}): Promise<void> {
  const name = `late-${++pods}`;
  const node = { nodeSelector: { 'kubernetes.io/hostname': lab.node(1).name }, terminationGracePeriodSeconds: 1 };
  const spec = { ...node, containers };
  const object: DemoManifest['object'] = { apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { app: 'late' }, ...more }, spec };
  const statusOf = async () => (await askStatus(lab.plan.dir)).pods.find((pod) => pod.name === name && pod.ips.length > 0);
  const path = '/api/v1/namespaces/demo/pods';
  await lab.api.send({ method: 'POST', path, body: object }, AbortSignal.timeout(patienceMs));
  await until(
    async () => (await statusOf()) !== undefined,
    patienceMs,
    () => `${name} does not start`,
  );
  const pod = await statusOf();
  if (pod) await lab.untilReached(lab.pod('client-2'), pod);
  await lab.api.send({ method: 'DELETE', path: `${path}/${name}` }, AbortSignal.timeout(patienceMs));
  const ports = async () => Object.keys(await lab.ofPorts(1)).filter((port) => port.startsWith('late'));
  await until(
    async () => (await ports()).length === 0,
    patienceMs,
    () => `${name} does not go`,
  );
}

/** A journal whose first record has another format version: eight digits of a checksum, a space, JSON. */
function withFormat(journal: string, format: number): string {
  const [first = '', ...rest] = journal.split('\n');
  const json = first.slice(9).replace(/"v":\d+/, `"v":${format}`);
  return [`${crc32(json).toString(16).padStart(8, '0')} ${json}`, ...rest].join('\n');
}

function losses({ streams, broken }: TrafficCount): readonly string[] {
  const losing = streams.filter(({ lost }) => lost > 0).map(({ name, lost, gapMs }) => `${name}: ${lost}, for ${gapMs} ms`);
  return broken > 0 ? [...losing, `${broken} connections`] : losing;
}

it('changes a node from the previous release to this one and back, without packet loss', async () => {
  const pending = new Set<Release>(['this', 'previous']);
  for (let tries = 1; pending.size > 0; tries++) {
    for (const release of ['this', 'previous'] as const) {
      const lost = losses(await replaceUnderTraffic(release));
      if (lost.length === 0) pending.delete(release);
      else if (tries === triesMax && pending.has(release)) expect(lost).toEqual([]);
    }
  }
});

it.each([
  ['previous', 'previous'],
  ['previous', 'this'],
  ['this', 'this'],
  ['this', 'previous'],
] as const)('starts and stops pods with the plugin of %s release and the agent of %s release', async (plugin, agent) => {
  install(plugin);
  await replaceAgent(agent);
  await startAndStopPod();
});

it.each([
  ['this', 'previous'],
  ['previous', 'this'],
] as const)('works with seinectl of %s release and the agent of %s release', async (tool, agent) => {
  await replaceAgent(agent);
  const program = tool === 'previous' ? previous.seinectl : join(packageRoot, 'src', 'seinectl', 'main.ts');
  const { apiSocket } = nodePaths(lab.plan.dir, lab.node(1).name);
  const room = { maxBuffer: 1 << 28 };
  const seinectl = (...words: readonly string[]) => execute(process.execPath, [program, '--socket', apiSocket, ...words], room);
  // seinectl before 0.24.0 has other words.
  expect((await seinectl('status')).stdout).toMatch(/in sync|as wanted/);
  for (const what of ['pods', 'nodes', 'services', 'flows', 'groups', 'ports', 'routes']) {
    const { stdout } = await seinectl('get', what, '--output', 'json');
    expect(JSON.parse(stdout), what).toMatchObject({ items: expect.arrayContaining([expect.anything()]) });
  }
  expect((await seinectl('diff')).stdout.trim()).toMatch(/^$|nothing/i);
});

it('rejects a journal of a newer format and removes nothing, and continues without it', async () => {
  await replaceAgent('this');
  await lab.agent(1, 'stop');
  const before = await look();
  const path = join(nodePaths(lab.plan.dir, lab.node(1).name).stateDir, 'ipam.journal');
  const newer = withFormat(readFileSync(path, 'utf8'), 99);
  writeFileSync(path, newer);
  startAgent(lab.plan, lab.node(1), previous.agent);
  await until(
    () => agentProcess(lab.plan, lab.node(1)) === undefined,
    patienceMs,
    () => 'the older agent goes on',
  );
  expect(JSON.stringify(lab.log(1).at(-1))).toContain('the IPAM journal has format 99');
  expect(readFileSync(path, 'utf8')).toBe(newer);
  // A release before 0.3 has set its version of the node's own flows by then, and removed none.
  const matchOf = ({ text }: DumpedFlow): string => text.split(' actions=')[0] ?? text;
  const there = (await lab.flows(1)).map(matchOf);
  expect(before.flows.map(matchOf).filter((match) => !there.includes(match))).toEqual([]);

  rmSync(path);
  await startAndAwait('previous');
  const after = await look();
  expect({ ofPorts: after.ofPorts, leases: after.leases, rewritten: rewritten(before, after) }).toEqual({
    ofPorts: before.ofPorts,
    leases: before.leases,
    rewritten: [],
  });
});

it('keeps a pod’s network when the agent goes back, and its limit too if that release has meters', async () => {
  const meters = async () => (await lab.exec(1, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-meters', 'br-int')).includes('kbps');
  const used = async () => (await lab.flows(1)).some(({ text }) => text.includes('meter:'));
  install('this');
  await replaceAgent('this');
  const path = '/api/v1/namespaces/demo/pods';
  const spec = { nodeSelector: { 'kubernetes.io/hostname': lab.node(1).name }, containers };
  const metadata = { name: 'limited', labels: { app: 'limited' }, annotations: { 'kubernetes.io/egress-bandwidth': '50M' } };
  await lab.api.send({ method: 'POST', path, body: { apiVersion: 'v1', kind: 'Pod', metadata, spec } }, AbortSignal.timeout(patienceMs));
  await until(used, patienceMs, () => 'the pod is not limited');
  const pod = async () => (await askStatus(lab.plan.dir)).pods.find(({ name, ips }) => name === 'limited' && ips.length > 0);
  await until(
    async () => (await pod()) !== undefined,
    patienceMs,
    () => 'the pod has no address',
  );
  const limited = await pod();
  await replaceAgent('previous');
  const knowsMeters = releaseOf(process.env['SEINE_TEST_RELEASE']).version !== '0.1.0';
  expect(await used()).toBe(knowsMeters);
  await replaceAgent('this');
  expect([await used(), await meters()]).toEqual([knowsMeters, knowsMeters]);
  if (limited) await lab.untilReached(lab.pod('client-2'), limited);
  expect(readFileSync(nodePaths(lab.plan.dir, lab.node(1).name).agentLog, 'utf8')).not.toContain('INVARIANT');
});
