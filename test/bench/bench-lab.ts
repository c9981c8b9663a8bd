import { execFile, execFileSync } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { request } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { type ClusterObjects, openClusterObjects } from '../../lab/apiserver/cluster-objects.ts';
import { openJournal } from '../../lab/apiserver/store/object-journal.ts';
import { Store } from '../../lab/apiserver/store/store.ts';
import { askControl } from '../../lab/daemon/control.ts';
import { removeLab } from '../../lab/down.ts';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { agentProcess, agentReadiness } from '../../lab/node/agent.ts';
import { ovsProcess } from '../../lab/node/ovs.ts';
import { labPaths, type NodePaths, netnsPrefix, nodePaths } from '../../lab/plan/names.ts';
import { type LabPlan, type NodePlan, planLab, type TrafficMode } from '../../lab/plan/plan.ts';
import { bringUp } from '../../lab/up.ts';
import type { AgentStatus } from '../../src/api/status.ts';
import type { Family } from '../../src/base/net/ip.ts';
import { testPodInterface } from '../support/test-datapath.ts';
import { setUrgency, urgent } from '../support/urgency.ts';

const execute = promisify(execFile);
const root = join(import.meta.dirname, '../..');
const pollMs = 2;

export interface BenchLabOptions {
  readonly families: readonly Family[];
  /** Content of the cluster before its node first sees it. */
  readonly cluster?: (objects: ClusterObjects) => void;
  /** Storage of the agent's journal; the disk if absent. */
  readonly journal?: 'disk' | 'memory';
  /** How the node sends to others; through the tunnel if absent. */
  readonly mode?: TrafficMode;
}

/** A lab of one node, as after `seine-lab up`, with the agent as it ships: the bundle. */
export class BenchLab {
  readonly plan: LabPlan;
  readonly node: NodePlan;
  readonly paths: NodePaths;
  readonly api: KubeApi;

  private constructor(plan: LabPlan, node: NodePlan, api: KubeApi) {
    this.plan = plan;
    this.node = node;
    this.paths = nodePaths(plan.dir, node.name);
    this.api = api;
  }

  static async start({ families, cluster, journal = 'disk', mode }: BenchLabOptions): Promise<BenchLab> {
    const dir = `/run/seine-b-${randomBytes(3).toString('hex')}`;
    const plan = planLab({ nodes: 1, dir, families, tunnel: 'geneve', datapath: 'netdev', mode, ...testPodInterface });
    const [node] = plan.nodes;
    if (!node) throw new Error('a lab without a node');
    if (existsSync(dir)) throw new Error(`${dir} is there already`); // a folder of the user, not to be removed below
    try {
      claim(plan, journal);
      if (cluster) fillCluster(plan, cluster);
      await bringUp({ plan, agent: agentBundle, onStep: () => {} }, AbortSignal.timeout(120_000));
      const lab = new BenchLab(plan, node, new KubeApi(await readKubeconfig(labPaths(dir).kubeconfig)));
      lab.#nodeFirst();
      return lab;
    } catch (thrown) {
      await removeLab(dir, AbortSignal.timeout(60_000));
      throw thrown;
    }
  }

  /** The name of one more namespace, which is deleted with the lab. */
  netns(name: string): string {
    return `${netnsPrefix(this.plan.id)}bench-${name}`;
  }

  async remove(): Promise<void> {
    this.api.close();
    await removeLab(this.plan.dir, AbortSignal.timeout(60_000));
  }

  /** Runs a command on the node, with the environment of Open vSwitch's tools; returns its output. */
  async exec(command: string, ...args: readonly string[]): Promise<string> {
    const inside = inNetns(this.node.netns, command, args);
    const env = { ...process.env, OVS_RUNDIR: this.paths.dir };
    const { stdout } = await execute(inside.command, inside.args, { env, maxBuffer: 1 << 28 });
    return stdout;
  }

  async agent(verb: 'stop' | 'start'): Promise<void> {
    await askControl(labPaths(this.plan.dir).control, 'POST', `/agents/${this.node.name}/${verb}`);
    this.#nodeFirst();
  }

  /** Gives the node's daemons a higher priority than other work, and than the API server, which is on another host in a real cluster. */
  #nodeFirst(): void {
    const { dir } = this.paths;
    const daemons = [agentProcess(this.plan, this.node), ovsProcess(dir, 'ovs-vswitchd'), ovsProcess(dir, 'ovsdb-server')];
    for (const daemon of daemons) if (daemon) setUrgency(daemon.pid, urgent);
  }

  /** @returns duration (ms) */
  async untilReady(withinMs = 60_000): Promise<number> {
    return await until(async () => (await agentReadiness(this.paths.apiSocket)).ready, withinMs, 'the agent to be ready');
  }

  /** Resident memory of the agent, in MiB. */
  residentMemory(): number {
    const pid = agentProcess(this.plan, this.node)?.pid;
    const [, kib = ''] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return Number(kib) / 1024;
  }

  async status(): Promise<AgentStatus> {
    return JSON.parse(await getText(this.paths.apiSocket, '/v1/status')) as AgentStatus;
  }

  /** Maximum delay of the agent's event loop in the last minutes (ms). */
  async lagMsMax(): Promise<number> {
    return (await this.status()).eventLoop.lagMsMax;
  }

  /** Value of the agent's metric with this name and these labels; 0 if absent. */
  async metric(name: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    return (await this.metrics())(name, labels);
  }

  /** Like `metric`, from one scrape of all of them, which is expensive for an agent with many. */
  async metrics(): Promise<(name: string, labels?: Readonly<Record<string, string>>) => number> {
    const page = await getText(this.paths.apiSocket, '/metrics');
    return (name, labels = {}) => metricOf(page, name, labels);
  }
}

function metricOf(page: string, name: string, labels: Readonly<Record<string, string>>): number {
  const selected = Object.entries(labels).map(([key, value]) => `${key}="${value}"`);
  const line = page
    .split('\n')
    .find((text) => text.match(/^[a-z0-9_]+/)?.[0] === `seine_agent_${name}` && selected.every((label) => text.includes(label)));
  return Number(line?.split(' ').at(-1) ?? 0);
}

const agentBundle = join(root, 'dist', 'seine-agent.mjs');

/** Waits for a condition. @returns duration (ms) */
export async function until(holds: () => Promise<boolean>, withinMs: number, what: string): Promise<number> {
  const startedMs = performance.now();
  while (!(await holds())) {
    if (performance.now() - startedMs > withinMs) throw new Error(`waited ${withinMs} ms for ${what}`);
    await sleep(pollMs);
  }
  return performance.now() - startedMs;
}

/** Network namespaces by name, with their loopback up: `ip` creates them all in one process. */
export function makeNamespaces(names: readonly string[]): void {
  execFileSync('ip', ['-batch', '-'], { input: names.map((name) => `netns add ${name}\n`).join('') });
  for (const name of names) execFileSync('ip', ['-n', name, 'link', 'set', 'lo', 'up']);
}

export function removeNamespaces(names: readonly string[]): void {
  execFileSync('ip', ['-batch', '-'], { input: names.map((name) => `netns delete ${name}\n`).join('') });
}

/** Puts the API server's data in memory: it is on another host in a real cluster, and its disk writes must not delay the node's. */
function claim(plan: LabPlan, journal: 'disk' | 'memory'): void {
  const { state, apiServer } = labPaths(plan.dir);
  mkdirSync(plan.dir, { recursive: true, mode: 0o700 });
  writeFileSync(state, `${JSON.stringify(plan, null, 2)}\n`, { mode: 0o600 });
  putIntoMemory(apiServer);
  if (journal === 'memory') for (const { name } of plan.nodes) putIntoMemory(nodePaths(plan.dir, name).stateDir);
}

/** Mounts a tmpfs, which is unmounted with the lab. */
function putIntoMemory(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'mode=700', 'seine-bench', folder]);
}

/** Writes objects into the lab's API server: through its own rules, without HTTP. */
function fillCluster(plan: LabPlan, cluster: (objects: ClusterObjects) => void): void {
  const store = new Store(openJournal(labPaths(plan.dir).apiServer));
  cluster(openClusterObjects({ store, serviceCidrs: plan.serviceCidrs, nodePortRange: { first: 30_000, last: 32_767 }, now: Date.now }));
  store.close();
}

function getText(socketPath: string, path: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request({ socketPath, path, agent: false }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (text: string) => (body += text));
      response.once('error', reject).once('end', () => resolve(body));
    })
      .once('error', reject)
      .end();
  });
}
