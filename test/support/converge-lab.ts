import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { copyFileSync, mkdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { get } from 'node:http';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { askControl } from '../../lab/daemon/control.ts';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { createAll, type DemoManifest, manifests, podsReady } from '../../lab/demo/workload.ts';
import { removeLab } from '../../lab/down.ts';
import { KubeApi } from '../../lab/kube/kube-api.ts';
import { readKubeconfig } from '../../lab/kube/kubeconfig.ts';
import { livingProcess } from '../../lab/machine/files.ts';
import { inNetns } from '../../lab/machine/netns.ts';
import { agentReadiness } from '../../lab/node/agent.ts';
import type { OvsDaemon } from '../../lab/node/ovs.ts';
import { labPaths, nodePaths, realLabDir } from '../../lab/plan/names.ts';
import { type LabOptions, type LabPlan, type NodePlan, planLab, subnetOf } from '../../lab/plan/plan.ts';
import { ask, type Outcome } from '../../lab/probe/probe.ts';
import { askStatus, bringUp } from '../../lab/up.ts';
import { untilServed } from './served.ts';
import { slowness, testDatapath, testPodInterface } from './test-datapath.ts';
import { testMode } from './test-mode.ts';

const execute = promisify(execFile);
const pollMs = 10;
/** In an emulated host everything takes ten times as long; with other work on the machine more. */
const bringUpMs = testDatapath === 'system' ? 900_000 : 300_000;
const servedWithinMs = 30_000;

/** A line of the agent's log. */
export interface LogLine {
  readonly msg: string;
  readonly time: string;
  readonly [field: string]: unknown;
}

/** A flow in `ovs-ofctl dump-flows`, without its age and counters. */
export interface DumpedFlow {
  readonly text: string;
  readonly ageMs: number;
}

/** A separate lab for tests that inject faults, with the pods and Services of the demo. */
export class ConvergeLab {
  readonly plan: LabPlan;
  readonly api: KubeApi;
  pods: readonly PodStatusLine[] = [];

  private constructor(plan: LabPlan, api: KubeApi) {
    this.plan = plan;
    this.api = api;
  }

  /** @param agent script that node runs as the agent; from the sources if absent */
  static async start(nodes: number, agent?: string, want: Partial<LabOptions> = {}): Promise<ConvergeLab> {
    const dir = realLabDir(`/run/seine-cv-${randomBytes(3).toString('hex')}`);
    const plan = planLab({
      nodes,
      dir,
      families: ['ipv4', 'ipv6'],
      tunnel: 'geneve',
      datapath: testDatapath,
      ...testPodInterface,
      ...testMode,
      ...want,
    });
    try {
      await bringUp({ plan, agent, onStep: () => {} }, AbortSignal.timeout(bringUpMs));
      return new ConvergeLab(plan, new KubeApi(await readKubeconfig(labPaths(dir).kubeconfig)));
    } catch (thrown) {
      await removeLab(dir, AbortSignal.timeout(60_000));
      throw thrown;
    }
  }

  async startPods(more: readonly DemoManifest[] = []): Promise<void> {
    const wanted = [...manifests(this.plan), ...more];
    await createAll(this.api, wanted, AbortSignal.timeout(bringUpMs));
    await podsReady(this.api, wanted.filter(({ object }) => object['kind'] === 'Pod').length, AbortSignal.timeout(bringUpMs));
    await untilServed(this.plan, this.api, AbortSignal.timeout(servedWithinMs * slowness));
    await this.#untilPeersInMode();
    this.pods = (await askStatus(this.plan.dir)).pods;
  }

  /** Waits until each node sends to each other node in the mode of the lab; agents begin with the tunnel, or with nothing. */
  async #untilPeersInMode(): Promise<void> {
    const { mode = 'encap', encryption, nodes } = this.plan;
    if (mode === 'encap' && encryption === undefined) return;
    const wanted = encryption === undefined ? 'direct' : 'wireguard';
    for (const [at, node] of nodes.entries()) {
      const isInSubnet = (other: NodePlan): boolean => mode !== 'hybrid' || subnetOf(this.plan, node) === subnetOf(this.plan, other);
      const peers = nodes.filter((other) => other !== node && (encryption !== undefined || isInSubnet(other))).length;
      const count = async (): Promise<number> => (await this.metrics(at + 1)).get(`peer_modes{mode="${wanted}",family="ipv4"}`) ?? 0;
      await until(
        async () => (await count()) === peers,
        servedWithinMs * slowness,
        () => `${node.name} does not send to ${peers} nodes by ${wanted}`,
      );
    }
  }

  async remove(): Promise<void> {
    this.api.close();
    this.#keepLogs(process.env['SEINE_TEST_LOGS']);
    await removeLab(this.plan.dir, AbortSignal.timeout(60_000));
    rmSync(this.plan.dir, { recursive: true, force: true }); // files of tests
  }

  node(number: number): NodePlan {
    const node = this.plan.nodes[number - 1];
    if (!node) throw new Error(`no node ${number}`);
    return node;
  }

  pod(name: string): PodStatusLine {
    const pod = this.pods.find((known) => known.name === name);
    if (!pod) throw new Error(`no pod ${name}`);
    return pod;
  }

  /** Running pods of a namespace. */
  async podNames(namespace: string): Promise<readonly string[]> {
    return (await askStatus(this.plan.dir)).pods.filter((pod) => pod.namespace === namespace).map(({ name }) => name);
  }

  async agent(number: number, verb: 'stop' | 'kill' | 'start'): Promise<void> {
    await this.#tell(`/agents/${this.node(number).name}/${verb}`);
  }

  async killOvs(number: number, only: OvsDaemon | 'all'): Promise<void> {
    await this.#tell(`/ovs/${this.node(number).name}/kill/${only}`);
  }

  async startOvs(number: number): Promise<void> {
    await this.#tell(`/ovs/${this.node(number).name}/start`);
  }

  async apiServer(verb: 'start' | 'start-empty' | 'stop'): Promise<void> {
    await this.#tell(`/apiserver/${verb}`);
  }

  /** Processes on all nodes. */
  async switchPids(): Promise<readonly number[]> {
    return (await askStatus(this.plan.dir)).nodes.flatMap(({ vswitchdPid }) => vswitchdPid ?? []);
  }

  /** Processes that serve WireGuard devices, and those that start them again; none where the kernel has the devices. */
  wireGuardPids(): readonly number[] {
    return this.plan.nodes.flatMap(({ name }) => {
      const keeper = livingProcess(join(nodePaths(this.plan.dir, name).dir, 'wireguard.pid'))?.pid;
      if (keeper === undefined) return [];
      const children = readFileSync(`/proc/${keeper}/task/${keeper}/children`, 'utf8').split(' ').map(Number);
      return [keeper, ...children.filter((pid) => pid > 0)];
    });
  }

  /** Processes on all nodes. */
  async agentPids(): Promise<readonly number[]> {
    return (await askStatus(this.plan.dir)).nodes.flatMap(({ agentPid }) => agentPid ?? []);
  }

  /** Process in which the API server, kubelets and servers of pods run. */
  daemonPids(): readonly number[] {
    const daemon = livingProcess(labPaths(this.plan.dir).daemonPid);
    return daemon ? [daemon.pid] : [];
  }

  /** Runs a command on a node, with the environment of Open vSwitch's tools; returns its output. */
  async exec(number: number, command: string, ...args: readonly string[]): Promise<string> {
    const inside = inNetns(this.node(number).netns, command, args);
    const env = { ...process.env, OVS_RUNDIR: nodePaths(this.plan.dir, this.node(number).name).dir };
    const { stdout } = await execute(inside.command, inside.args, { env, maxBuffer: 1 << 28 });
    return stdout;
  }

  /** All flows, in the order of their text. */
  async flows(number: number): Promise<readonly DumpedFlow[]> {
    const dump = await this.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-flows', 'br-int');
    return dump
      .split('\n')
      .filter((line) => line.includes('actions='))
      .map((line) => ({
        text: line.replace(/(duration|n_packets|n_bytes|idle_age|hard_age)=[^,]+, ?/g, '').trim(),
        ageMs: Number(/duration=([\d.]+)s/.exec(line)?.[1]) * 1000,
      }))
      .toSorted((a, b) => (a.text < b.text ? -1 : 1));
  }

  /** All groups, without their counters. */
  async groups(number: number): Promise<string> {
    return await this.exec(number, 'ovs-ofctl', '-O', 'OpenFlow15', 'dump-groups', 'br-int').then((dump) =>
      dump.split('\n').slice(1).toSorted().join('\n'),
    );
  }

  /** Interface name → OpenFlow number. */
  async ofPorts(number: number): Promise<Readonly<Record<string, number>>> {
    const json = await this.exec(number, 'ovs-vsctl', '--format=json', '--columns=name,ofport', 'list', 'Interface');
    const { data } = JSON.parse(json) as { data: [string, number][] };
    return Object.fromEntries(data.toSorted(([a], [b]) => (a < b ? -1 : 1)));
  }

  /** The node's end of a pod's interface, of any kind. For a pre-plugged port the database is updated a little later than the runtime. */
  async nodeEnd(number: number, pod: string): Promise<string> {
    let name = '';
    const isThere = async (): Promise<boolean> => {
      name = (await this.exec(number, 'ovs-vsctl', '--bare', '--columns=name', 'find', 'Port', `external_ids:pod-name=${pod}`)).trim();
      return name !== '';
    };
    await until(isThere, 5_000, () => `no port of ${pod}`);
    return name;
  }

  /** Runs ip(8) in the namespace of the far ends of a node's pre-plugged ports. */
  async amongPorts(number: number, ...words: readonly string[]): Promise<string> {
    const { portsNamespace } = nodePaths(this.plan.dir, this.node(number).name);
    return await this.exec(number, 'nsenter', `--net=${portsNamespace}`, 'ip', ...words);
  }

  /** Size of writes to a node's database: ovs-vswitchd's statistics are not kept there, so only changes count. */
  databaseSize(number: number): number {
    return statSync(join(nodePaths(this.plan.dir, this.node(number).name).ovs, 'conf.db')).size;
  }

  log(number: number): readonly LogLine[] {
    return readFileSync(nodePaths(this.plan.dir, this.node(number).name).agentLog, 'utf8')
      .split('\n')
      .filter((line) => line.startsWith('{'))
      .map((line) => JSON.parse(line) as LogLine);
  }

  /** The agent's counters, by name and labels as in its `/metrics`, without the prefix. */
  async metrics(number: number): Promise<ReadonlyMap<string, number>> {
    const { apiSocket } = nodePaths(this.plan.dir, this.node(number).name);
    const page = await new Promise<string>((resolve, reject) => {
      get({ socketPath: apiSocket, path: '/metrics', agent: false }, (response) => void text(response).then(resolve, reject)).once(
        'error',
        reject,
      );
    });
    const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'));
    return new Map(
      lines.map((line) => {
        const end = line.lastIndexOf(' ');
        return [line.slice(0, end).replace(/^seine_agent_/, ''), Number(line.slice(end + 1))];
      }),
    );
  }

  async readiness(number: number, path?: '/readyz/rollout'): Promise<{ readonly ready: boolean; readonly says: string }> {
    return await agentReadiness(nodePaths(this.plan.dir, this.node(number).name).apiSocket, path);
  }

  /** @returns duration (ms) */
  async untilReady(number: number, withinMs = 30_000): Promise<number> {
    let says = '';
    return await until(
      async () => {
        const state = await this.readiness(number);
        says = state.says;
        return state.ready;
      },
      withinMs,
      () => `the agent of node ${number} is not ready: ${says}`,
    );
  }

  /** Requests a pod's name, by one of its addresses. */
  async reach(from: PodStatusLine, address: string, port = 80): Promise<Outcome> {
    return await ask({ from: from.netns, protocol: 'tcp', address, port, timeoutMs: 250 * slowness });
  }

  /** Waits until one pod reaches another by every address. @returns duration (ms) */
  async untilReached(from: PodStatusLine, to: PodStatusLine, withinMs = 20_000): Promise<number> {
    return await until(
      async () => (await Promise.all(to.ips.map((ip) => this.reach(from, ip)))).every(({ is }) => is === 'OK'),
      withinMs,
      () => `${from.name} does not reach ${to.name}`,
    );
  }

  /** Keeps logs of agents and lab before a virtual machine ends. */
  #keepLogs(folder: string | undefined): void {
    if (folder === undefined) return;
    const kept = join(folder, this.plan.id);
    mkdirSync(kept, { recursive: true });
    copyFileSync(labPaths(this.plan.dir).daemonLog, join(kept, 'lab.log'));
    for (const { name } of this.plan.nodes) copyFileSync(nodePaths(this.plan.dir, name).agentLog, join(kept, `${name}.log`));
  }

  async #tell(path: string): Promise<void> {
    await askControl(labPaths(this.plan.dir).control, 'POST', path);
  }
}

/**
 * Polls until a condition is true; on an emulated host, `withinMs` is longer. @returns duration (ms). @throws with `problem` if it does not
 * become true
 */
export async function until(holds: () => Promise<boolean> | boolean, withinMs: number, problem: () => string): Promise<number> {
  const startedMs = performance.now();
  while (!(await holds())) {
    if (performance.now() - startedMs > withinMs * slowness) throw new Error(`${problem()} after ${withinMs * slowness} ms`);
    await sleep(pollMs);
  }
  return Math.round(performance.now() - startedMs);
}
