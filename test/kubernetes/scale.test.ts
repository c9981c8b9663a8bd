import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { labFolderOf } from '../../build/test-run/lab-folder.mjs';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { livingProcess } from '../../lab/machine/files.ts';
import { runIn } from '../../lab/machine/netns.ts';
import { endProcesses } from '../../lab/machine/process.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { controlPlanePaths } from '../../lab/real-kubernetes/paths.ts';
import { askStatus } from '../../lab/up.ts';
import { acceptConfig } from '../../src/agent/config/agent-config.ts';
import { openKubeSources, runKubeSources, whenInStep } from '../../src/agent/kube-sources.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { print, RealCluster } from './cluster.ts';
import { type ManyObjects, makeNamespaces, makeNodesAndPods } from './many-objects.ts';

/*
 * Cost of a large cluster for one agent, and cost of its agents for an API server, with a real Kubernetes that has a thousand nodes and
 * twenty thousand pods as objects alone. It prints figures, which are for docs/records/performance, and asserts only that everything is
 * known.
 */

const dir = labFolderOf('scale');
const limit = AbortSignal.timeout(3_000_000);
const many: ManyObjects = { nodes: 999, podsOfNode: 20, namespaces: 100 };
const pods = many.nodes * many.podsOfNode;
const restarting = 50;
/** More would be read too slowly by two CPUs: an API server ends a watch that is not read. */
const atOnce = 5;
const restMs = 60_000;
const patient = { timeout: 300_000, interval: 250 };
const ticksOfSecond = 100;

let cluster: RealCluster;
let api: KubeApi;
let agent: AgentClient;

beforeAll(async () => {
  cluster = await RealCluster.up({ dir, nodes: 1, families: 'ipv4' }, limit);
  const { kubeconfig } = labPaths(cluster.plan.dir);
  api = new KubeApi(await readKubeconfig(kubeconfig));
  agent = new AgentClient(nodePaths(cluster.plan.dir, 'node-1').apiSocket);
  await countBytes();
}, 600_000);
afterAll(async () => {
  api?.close();
  if (process.env['SEINE_TEST_KEEP'] === undefined) await RealCluster.down(dir, AbortSignal.timeout(300_000));
}, 360_000);

/** Counts bytes in the namespace of the control plane: from its API server to others than its own controllers. */
async function countBytes(): Promise<void> {
  const rules =
    'add table inet scale; add chain inet scale out { type filter hook output priority 0; }; add rule inet scale out oifname != "lo" tcp sport 6443 counter';
  await runIn(cluster.plan.management.netns, 'nft', [rules], {}, limit);
}

async function bytes(): Promise<number> {
  const text = await runIn(cluster.plan.management.netns, 'nft', ['list', 'chain', 'inet', 'scale', 'out'], {}, limit);
  return Number(/bytes (\d+)/.exec(text)?.[1]);
}

/** CPU time of a process so far (s); proc_pid_stat(5). */
function cpuOf(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]?.split(' ') ?? [];
  return (Number(fields[11]) + Number(fields[12])) / ticksOfSecond;
}

function memoryOf(pid: number): number {
  return Number(/VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1_024;
}

async function agentPid(): Promise<number> {
  const { nodes } = await askStatus(cluster.plan.dir);
  const pid = nodes[0]?.agentPid;
  if (typeof pid !== 'number') throw new Error('the agent does not run');
  return pid;
}

function serverPid(): number {
  const running = livingProcess(controlPlanePaths(cluster.plan.dir).pidFile('kube-apiserver'));
  if (running === undefined) throw new Error('the API server does not run');
  return running.pid;
}

/** Number of objects that the agent knows, of the largest resource. */
async function known(): Promise<number> {
  const { body } = await agent.get('/metrics');
  return Math.max(0, ...[...body.matchAll(/^seine_agent_source_objects\{[^}]*\} (\d+)/gm)].map(([, count]) => Number(count)));
}

async function inStep(): Promise<boolean> {
  const { body } = await agent.get('/metrics');
  const states = [...body.matchAll(/^seine_agent_source_up_to_date\{[^}]*\} (\d)/gm)].map(([, state]) => state);
  return states.length > 5 && states.every((state) => state === '1') && /^seine_agent_ready 1$/m.test(body);
}

const mib = (bytes: number) => (bytes / 2 ** 20).toFixed(1);

it('learns of a thousand nodes and twenty thousand pods', { timeout: 1_200_000 }, async () => {
  const before = memoryOf(await agentPid());
  await makeNamespaces(api, many, limit);
  const accounts = async () => (await cluster.kubectl('get', 'serviceaccounts', '-A')).match(/^many-\d+ /gm)?.length;
  await expect.poll(accounts, patient).toBe(many.namespaces);
  // From here on controllers would act on the dead nodes, all the time.
  const { pidFile } = controlPlanePaths(cluster.plan.dir);
  await endProcesses(
    [livingProcess(pidFile('kube-controller-manager'))].flatMap((found) => found ?? []),
    10_000,
  );
  const startedMs = performance.now();
  await makeNodesAndPods(api, many, limit);
  print(`${many.nodes} nodes and ${pods} pods were made in ${Math.round((performance.now() - startedMs) / 1_000)} s`);
  await expect.poll(known, patient).toBeGreaterThanOrEqual(pods);
  print(`memory of the agent: ${before.toFixed(0)} MiB before, ${memoryOf(await agentPid()).toFixed(0)} MiB just after`);
});

it('restarts, and becomes idle', { timeout: 600_000 }, async () => {
  await cluster.lab('kubelet', 'node-1', 'stop');
  await cluster.lab('agent', 'node-1', 'stop');
  const [sent, busy] = [await bytes(), cpuOf(serverPid())];
  const startedMs = performance.now();
  await cluster.lab('agent', 'node-1', 'start');
  await expect.poll(async () => await inStep().catch(() => false), patient).toBe(true);
  await expect.poll(known, patient).toBeGreaterThanOrEqual(pods);
  const pid = await agentPid();
  const took = performance.now() - startedMs;
  print(
    `restart: in step after ${(took / 1_000).toFixed(1)} s; ${mib((await bytes()) - sent)} MiB from the API server; ` +
      `${cpuOf(pid).toFixed(1)} s of a processor, the API server ${(cpuOf(serverPid()) - busy).toFixed(1)} s; ${memoryOf(pid).toFixed(0)} MiB`,
  );
  const rest = { sent: await bytes(), own: cpuOf(pid), server: cpuOf(serverPid()), fromMs: performance.now() };
  await expect.poll(() => performance.now() - rest.fromMs, { timeout: 2 * restMs }).toBeGreaterThan(restMs);
  print(
    `at rest for a minute: ${((await bytes()) - rest.sent).toFixed(0)} bytes; ${(cpuOf(pid) - rest.own).toFixed(2)} s of a processor; ` +
      `${memoryOf(pid).toFixed(0)} MiB`,
  );
  expect(await known()).toBeGreaterThanOrEqual(pods);
});

it(`serves ${restarting} agents that start, ${atOnce} at a time`, { timeout: 1_800_000 }, async () => {
  const { kubeconfig } = labPaths(cluster.plan.dir);
  const folder = mkdtempSync(join(tmpdir(), 'seine-scale-'));
  const [busy, startedMs] = [cpuOf(serverPid()), performance.now()];
  try {
    for (let at = 0; at < restarting; at += atOnce)
      await Promise.all(
        Array.from({ length: atOnce }, (_, more) => startsOnce(`many-${at + more}`, kubeconfig, join(folder, String(at + more)))),
      );
    print(
      `${restarting} agents, ${atOnce} at a time: in step after ${((performance.now() - startedMs) / 1_000).toFixed(1)} s; ` +
        `the API server took ${(cpuOf(serverPid()) - busy).toFixed(1)} s of a processor, and has ${memoryOf(serverPid()).toFixed(0)} MiB`,
    );
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

/** Requests of an agent to the API server until it is synced, and no others. */
async function startsOnce(nodeName: string, kubeconfig: string, stateDir: string): Promise<void> {
  const stop = new AbortController();
  const { config } = acceptConfig(JSON.stringify({ nodeName, kubeconfig }), {});
  const sources = openKubeSources(config, { stateDir, log: silentLog });
  const running = runKubeSources(sources, stop.signal);
  try {
    const { nodes, services, endpointSlices, networkPolicies, namespaces, policyPods } = sources;
    await whenInStep([nodes, services, endpointSlices, networkPolicies, namespaces, policyPods], limit);
    expect(policyPods.replica.size).toBeGreaterThanOrEqual(pods);
  } finally {
    stop.abort();
    await Promise.allSettled([running]);
  }
}
