import { randomBytes } from 'node:crypto';
import { readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { Api } from './api.ts';
import { askSocket, type Place, portsPath, run, runOn, until } from './host.ts';
import { agentKey, attachmentsOf, isStanding, nodeEndOf, type PodInterfaces } from './pod-interfaces.ts';
import type { Ground } from './tally.ts';

export const root = join(import.meta.dirname, '..', '..');
const program = join(root, 'bin', 'seine-lab.mjs');
/** The shipped agent: one bundle. */
export const shippedAgent = join(root, 'dist', 'seine-agent.mjs');

/** Options of node for an agent. */
export function agentFlags(): readonly string[] {
  const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { config: Record<string, string> };
  return (config['agent-node-flags'] ?? '').split(' ');
}

// Timeouts for hangs; an emulated host takes minutes.
const raiseMs = 600_000;
const readyMs = 600_000;
/** Timeout of a request (ms). An emulated agent that is starting answers slowly. */
const askMs = 10_000;
const accountMs = 120_000;
const diskMiB = 8;

/** A node in `seine-lab status --json`. */
export interface LabNode extends Place {
  readonly name: string;
  readonly ip: readonly string[];
  readonly agentPid: number | null;
  readonly vswitchdPid: number | null;
  readonly ovsdbPid: number | null;
  readonly agentSocket: string;
  readonly cniConf: string;
}

/** A pod with a network in that status. */
export interface LabPod {
  readonly namespace: string;
  readonly name: string;
  readonly node: string;
  readonly netns: string;
  readonly ips: readonly string[];
  readonly containerID: string;
}

/** Options of a lab. */
export interface LabOptions {
  /** Script that node runs as the tested agent. */
  readonly agent: string;
  /** Version of a real API server, controllers and scheduler, such as `1.37`; the lab's own API server if absent. */
  readonly controlPlane?: string;
  /** Data path of Open vSwitch; `netdev` (userspace) if absent. */
  readonly datapath?: 'netdev' | 'system';
  /** Kind of interface of pods. */
  readonly podInterface: PodInterfaces;
  /** How nodes send to each other's pods; through the tunnel if absent. */
  readonly paths?: NodePaths;
}

/** Ways between nodes other than the tunnel: without one, or encrypted. */
export type NodePaths = 'noEncap' | 'wireguard';

const pathWords: Readonly<Record<NodePaths, readonly string[]>> = {
  noEncap: ['--mode', 'noEncap'],
  wireguard: ['--encryption', 'wireguard'],
};

interface LabStatus {
  readonly nodes: readonly LabNode[];
  readonly pods: readonly LabPod[];
}

/** A lab of two nodes; faults are injected into the first. The driver uses only its command line, its socket and its output. */
export class Lab {
  readonly dir: string;
  readonly api: Api;
  /** Node with its names, sockets and namespaces, which do not change. */
  readonly tried: LabNode;
  readonly other: LabNode;
  readonly options: LabOptions;
  #isMounted = false;

  private constructor(options: LabOptions, dir: string, api: Api, nodes: readonly LabNode[]) {
    const [tried, other] = nodes;
    if (tried === undefined || other === undefined) throw new Error('the lab has no two nodes');
    [this.options, this.dir, this.api, this.tried, this.other] = [options, dir, api, tried, other];
  }

  static async raise(options: LabOptions): Promise<Lab> {
    const { agent, controlPlane, datapath = 'netdev', podInterface, paths } = options;
    const ways = paths === undefined ? [] : pathWords[paths];
    const words = ['--nodes', '2', '--datapath', datapath, '--pod-interface', agentKey[podInterface], ...ways];
    const real = controlPlane === undefined ? [] : ['--control-plane', controlPlane];
    const dir = `/run/seine-chaos-${randomBytes(3).toString('hex')}`;
    try {
      await run(process.execPath, [program, 'up', '--dir', dir, ...words, ...real, '--agent', agent], {
        timeoutMs: raiseMs,
      });
      return new Lab(options, dir, new Api(join(dir, 'kubeconfig')), (await statusOf(dir)).nodes);
    } catch (thrown) {
      await down(dir);
      throw thrown;
    }
  }

  async status(): Promise<LabStatus> {
    return await statusOf(this.dir);
  }

  /** Live pods of the tested node that have their own network. */
  async pods(): Promise<readonly LabPod[]> {
    return (await this.status()).pods.filter(({ node }) => node === this.tried.name);
  }

  /** Interfaces above pre-plugged ports on the tested node, by container ID. */
  standingEnds(): ReadonlyMap<string, string> {
    const ends = attachmentsOf(this.tried.rundir).map((attachment) => [attachment.containerId, nodeEndOf(attachment)] as const);
    return new Map(ends.filter(([, end]) => isStanding(end)));
  }

  /** Runs a command in the namespace of the far ends of pre-plugged ports. */
  onPorts(command: string, ...args: readonly string[]): Promise<string> {
    return run('nsenter', [`--net=${portsPath(this.tried)}`, command, ...args]);
  }

  /** The tested node, with its present processes. */
  async now(): Promise<LabNode> {
    const found = (await this.status()).nodes.find(({ name }) => name === this.tried.name);
    if (found === undefined) throw new Error(`${this.tried.name} is gone`);
    return found;
  }

  /** Platform, as it reports itself. */
  async ground(): Promise<Ground> {
    const [version, dataPath, kernel] = await Promise.all([
      this.on('ovs-vsctl', '--version'),
      this.on('ovs-vsctl', 'get', 'Bridge', 'br-int', 'datapath_type'),
      run('uname', ['-r']),
    ]);
    const ovs = /\) (?<number>\S+)/.exec(version)?.groups?.['number'] ?? version;
    const { controlPlane, podInterface } = this.options;
    const api = controlPlane === undefined ? 'lab' : `Kubernetes ${controlPlane}`;
    return { ovs, dataPath: dataPath.trim().replaceAll('"', '') || 'system', api, podInterface, kernel: kernel.trim() };
  }

  /** The link that has the address of a node. */
  get transportLink(): string {
    return this.options.datapath === 'system' ? 'eth0' : 'br-phy';
  }

  /** Creates a namespace that takes pods: its default account, which a real API server requires for every pod, comes from a controller. */
  async createNamespace(name: string, labels: Readonly<Record<string, string>> = {}): Promise<void> {
    await this.api.create('/api/v1/namespaces', { metadata: { name, labels } });
    const accounts = `/api/v1/namespaces/${name}/serviceaccounts`;
    await until(
      async () => (await this.api.list(accounts)).some(({ metadata }) => metadata.name === 'default'),
      accountMs,
      () => `the namespace ${name} has no default account`,
    );
  }

  /** Runs a command on the tested node. */
  on(command: string, ...args: readonly string[]): Promise<string> {
    return runOn(this.tried, command, ...args);
  }

  /** Calls a route of the lab's daemon, such as `agents/node-1/start`. */
  async pull(lever: string): Promise<void> {
    const { status, body } = await askSocket(join(this.dir, 'control.sock'), 'POST', `/${lever}`);
    if (status !== 200) throw new Error(`${lever}: ${body}`);
  }

  /** Moves the state of the tested agent to its own file system, which a step can fill. The agent must not run. */
  async giveSmallDisk(): Promise<void> {
    await run('cp', ['-a', this.stateDir, `${this.stateDir}.kept`]);
    await run('mount', ['-t', 'tmpfs', '-o', `mode=700,size=${diskMiB}m`, 'seine-chaos', this.stateDir]);
    this.#isMounted = true;
    await run('sh', ['-c', `cp -a '${this.stateDir}.kept/.' '${this.stateDir}' && rm -r '${this.stateDir}.kept'`]);
  }

  get stateDir(): string {
    return join(this.tried.rundir, 'state');
  }

  async untilReady(): Promise<void> {
    let says = '';
    await until(
      async () => {
        const answer = await readiness(this.tried.agentSocket);
        says = answer.says;
        return answer.ready;
      },
      readyMs,
      () => `the tried agent is not ready: ${says}`,
    );
  }

  async remove(): Promise<void> {
    this.api.close();
    // Lazily: the agent still has open files there.
    if (this.#isMounted) await run('umount', ['-l', this.stateDir]);
    await down(this.dir);
  }
}

/** Answer of an agent to `GET /readyz`. */
export async function readiness(socket: string): Promise<{ readonly ready: boolean; readonly says: string }> {
  try {
    const { status, body } = await askSocket(socket, 'GET', '/readyz', askMs);
    return { ready: status === 200, says: body.trim() };
  } catch (error) {
    return { ready: false, says: error instanceof Error ? error.message : String(error) };
  }
}

async function statusOf(dir: string): Promise<LabStatus> {
  const { body } = await askSocket(join(dir, 'control.sock'), 'GET', '/status');
  return JSON.parse(body) as LabStatus;
}

async function down(dir: string): Promise<void> {
  await run(process.execPath, [program, 'down', '--dir', dir]);
  rmSync(dir, { recursive: true, force: true });
}
