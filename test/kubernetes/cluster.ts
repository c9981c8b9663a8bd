import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { basename, delimiter, join } from 'node:path';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { labProgram, packageRoot } from '../../lab/machine/installation.ts';
import { run, runAnyway } from '../../lab/machine/process.ts';
import { labPaths, realLabDir } from '../../lab/plan/names.ts';
import type { LabPlan } from '../../lab/plan/plan.ts';
import { askStatus, planOf } from '../../lab/up.ts';
import { testPodInterface } from '../support/test-datapath.ts';

const startedMs = performance.now();

/** Prints a line of progress, with the seconds since the run began. */
export function print(text: string): void {
  console.log(`${((performance.now() - startedMs) / 1_000).toFixed(0).padStart(5)} s  ${text}`);
}

interface ClusterOptions {
  readonly dir: string;
  readonly nodes: number;
  readonly families: string;
  /** Without a pod network; with the lab's own agents if absent. */
  readonly bare?: boolean;
}

/** How an administrator reaches a cluster and its nodes. */
export interface Administration {
  readonly env: Readonly<Record<string, string>>;
  /** Command and arguments that run a program where the administrator works. */
  readonly inside: (command: string, args: readonly string[]) => { readonly command: string; readonly args: readonly string[] };
  /** Runs a command on a node. */
  readonly onNode: (node: string, command: readonly string[]) => Promise<string>;
  /** Pods with a network, as the runtimes of the nodes recorded them. */
  readonly pods: () => Promise<readonly PodStatusLine[]>;
}

/** A real Kubernetes in a lab, and an administrator's working folder. */
export class RealCluster {
  readonly plan: LabPlan;
  readonly signal: AbortSignal;
  /** The administrator's working folder: files written by commands are here. */
  readonly folder: string;
  readonly #administration: Administration;

  constructor(plan: LabPlan, administration: Administration, signal: AbortSignal) {
    this.plan = plan;
    this.#administration = administration;
    this.signal = signal;
    this.folder = join(packageRoot, '.cache', 'kubernetes', basename(plan.dir));
    rmSync(this.folder, { recursive: true, force: true });
    mkdirSync(this.folder, { recursive: true });
  }

  static async up({ dir, nodes, families, bare }: ClusterOptions, signal: AbortSignal): Promise<RealCluster> {
    await lab(dir, ['down'], signal);
    const { podInterface } = testPodInterface;
    const pods = podInterface === undefined ? [] : ['--pod-interface', podInterface];
    const network = bare ? ['--bare'] : pods; // a bare lab's agents are configured by their manifest
    await lab(dir, ['up', '--kubernetes', ...network, '--nodes', String(nodes), '--families', families], signal);
    const plan = planOf(realLabDir(dir));
    return new RealCluster(plan, administrationOf(plan, signal), signal);
  }

  static async down(dir: string, signal: AbortSignal): Promise<void> {
    print((await lab(dir, ['down'], signal)).trim());
  }

  get nodes(): readonly string[] {
    return this.plan.nodes.map(({ name }) => name);
  }

  async kubectl(...args: readonly string[]): Promise<string> {
    return await this.#run('kubectl', args);
  }

  /** Applies objects with server-side apply: the requests of a client-side apply take a busy server longer than kubectl waits. */
  async apply(objects: readonly object[]): Promise<void> {
    const input = JSON.stringify({ apiVersion: 'v1', kind: 'List', items: objects });
    await this.#run('kubectl', ['apply', '--server-side', '--validate=strict', '-f', '-'], input);
  }

  /** Its output, whatever its exit code. */
  async kubectlAnyway(...args: readonly string[]): Promise<string> {
    const { env, inside } = this.#administration;
    const words = inside('kubectl', args);
    const { stdout, stderr } = await runAnyway(words.command, words.args, { env }, this.signal);
    return `${stdout}${stderr}`;
  }

  /** Waits for a jsonpath or a condition, for the given time (s). */
  async wait(seconds: number, ...args: readonly string[]): Promise<void> {
    await this.kubectl('wait', `--timeout=${seconds}s`, ...args);
  }

  /** Runs a line of a page as an administrator would: in a shell, in the working folder. `npm run` finds the checkout. */
  async type(command: string): Promise<string> {
    print(`$ ${command}`);
    const line = command.replace(/^npm run /, `npm --silent --prefix ${packageRoot} run `);
    return await this.#run('sh', ['-ec', `cd ${this.folder}; ${line}`]);
  }

  /** Runs several lines of a page in one shell, which ends at the first failure. @param shown line that is printed as progress */
  async typeAll(script: string, shown: string): Promise<string> {
    for (const line of shown.split('\n')) print(`$ ${line}`);
    const text = script.replaceAll(/^npm run /gm, `npm --silent --prefix ${packageRoot} run `);
    return await this.#run('bash', ['-ec', `cd ${this.folder}\n${text}`]);
  }

  async lab(...args: readonly string[]): Promise<string> {
    return await lab(this.plan.dir, args, this.signal);
  }

  /** Runs a command on a node, with the node's own files and network. */
  async onNode(node: string, ...command: readonly string[]): Promise<string> {
    return await this.#administration.onNode(node, command);
  }

  /** Imports images into the containerd of each node. @param archive in the format of `podman save` */
  async importImages(archive: string): Promise<void> {
    await Promise.all(this.nodes.map((node) => this.onNode(node, 'ctr', '-n', 'k8s.io', 'images', 'import', '--local', archive)));
  }

  async exec(pod: string, ...command: readonly string[]): Promise<string> {
    return await this.kubectl('exec', pod, '--', ...command);
  }

  /** Reports whether each of three packets is answered. The userspace data path drops the first to an unknown node. */
  async pings(pod: string, ip: string): Promise<boolean> {
    return (await this.exec(pod, 'ping', '-n', '-c', '3', '-i', '0.2', ip)).includes(' 0% packet loss');
  }

  /** Network namespace of a pod on this host. */
  async pod(name: string): Promise<PodStatusLine> {
    const found = (await this.#administration.pods()).find((pod) => pod.name === name);
    if (found === undefined) throw new Error(`no pod ${name} has a network`);
    return found;
  }

  /** Seine's pod on a node, of any pool. @param app `seine-agent` or `seine-ovs` */
  async podOf(app: string, node: string): Promise<string> {
    const fields = ['--field-selector', `spec.nodeName=${node},status.phase!=Failed`];
    const names = await this.kubectl('-n', 'seine-system', 'get', 'pods', '-l', `app.kubernetes.io/name=${app}`, ...fields, '-o', 'name');
    return names.trim();
  }

  /** The last lines of a log of the lab or of a node, for error messages. */
  logOf(node: string, program: string): string {
    const file = join(labPaths(this.plan.dir).nodes, node, 'kubernetes', `${program}.log`);
    return readFileSync(file, 'utf8').slice(-2_000);
  }

  async #run(command: string, args: readonly string[], input?: string): Promise<string> {
    const { env, inside } = this.#administration;
    const words = inside(command, args);
    return await run(words.command, words.args, { env, ...(input !== undefined && { input }) }, this.signal);
  }
}

/** Administration of a cluster that the lab runs: from this host, and through `seine-lab`. */
function administrationOf(plan: LabPlan, signal: AbortSignal): Administration {
  const path = [plan.kubernetes?.programs, process.env['PATH']].join(delimiter);
  return {
    env: { KUBECONFIG: labPaths(plan.dir).kubeconfig, PATH: path },
    inside: (command, args) => ({ command, args }),
    onNode: async (node, command) => await lab(plan.dir, ['node', 'exec', node, '--', ...command], signal),
    pods: async () => (await askStatus(plan.dir)).pods,
  };
}

async function lab(dir: string, args: readonly string[], signal: AbortSignal): Promise<string> {
  const { code, stdout, stderr } = await runAnyway(process.execPath, [labProgram, ...args], { env: { SEINE_LAB_DIR: dir } }, signal);
  if (code !== 0) throw new Error(`seine-lab ${args.join(' ')}: exit code ${code}: ${stderr.trim() || stdout.trim()}`);
  return stdout || stderr;
}
