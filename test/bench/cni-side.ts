import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NetnsRef } from '../../lab/plan/names.ts';
import { type BenchLab, makeNamespaces, removeNamespaces } from './bench-lab.ts';
import { type Job, Launcher } from './launcher.ts';

/** A namespace that a plugin attaches to a network. */
export interface BenchPod {
  readonly containerId: string;
  readonly netns: string;
}

export const podNamespace = 'bench';

/** Name that a runtime passes to the plugin. */
export function podNameOf({ netns }: BenchPod): string {
  return netns.slice(-30);
}

/** A plugin on a node, called as by a runtime. */
export interface SideOptions {
  /** Name of the side, and prefix of namespaces. */
  readonly name: string;
  readonly program: string;
  readonly pluginFolders: string;
  /** Namespace of the node of this plugin. */
  readonly place: NetnsRef;
  readonly conf: Readonly<Record<string, unknown>>;
  /** Folder for files, deleted with the lab. */
  readonly folder: string;
  /** Plugins that a runtime calls after it, with its result; none if absent. */
  readonly chained?: readonly ChainedPlugin[];
  /** True if pods follow each other so closely that work after the DEL of one may overlap the ADD of another. */
  readonly isHurried?: boolean;
}

/** A plugin of Debian's, later in a list. */
interface ChainedPlugin {
  readonly type: string;
  readonly runtimeConfig: object;
}

/**
 * Pause after a DEL, for work that continues after its answer: it must slow neither the other side nor the next ADD, which on a node comes
 * seconds later (ms).
 */
const calmMs = 150;
/**
 * The same for a pre-plugged port, which stays. The pod's interface above it is deleted half a second after the DEL, unless its namespace
 * is deleted before (ms).
 */
const standingCalmMs = 900;

export class CniSide {
  readonly name: string;
  readonly attached: BenchPod[] = [];
  readonly #options: SideOptions;
  readonly #launcher: Launcher;
  readonly #spare: BenchPod[] = [];
  readonly #confFile: string;

  constructor(options: SideOptions) {
    this.name = options.name;
    this.#options = options;
    mkdirSync(options.folder, { recursive: true, mode: 0o700 });
    this.#confFile = join(options.folder, 'conf.json');
    writeFileSync(this.#confFile, JSON.stringify(options.conf));
    this.#launcher = new Launcher(options.place);
  }

  /** Namespaces for this many pods, created beforehand. @returns the pods, in the order in which they are used */
  prepare(lab: BenchLab, count: number): readonly BenchPod[] {
    const pods = Array.from({ length: count }, (_, index) => {
      const name = `${this.name.replaceAll(/[^a-z0-9]/g, '')}-${index}`;
      return { containerId: `${name}-${'0'.repeat(40)}`, netns: lab.netns(name) };
    });
    makeNamespaces(pods.map(({ netns }) => netns));
    this.#spare.push(...pods);
    return pods;
  }

  /** @returns each ADD, and the duration of all of them (ms) */
  async add(count: number, width: number): Promise<{ readonly each: readonly number[]; readonly allMs: number }> {
    const pods = this.#spare.splice(0, count);
    if (pods.length < count) throw new Error('too few namespaces were prepared');
    const result = await this.#run('ADD', pods, width);
    this.attached.push(...pods);
    return result;
  }

  async check(pod: BenchPod): Promise<number> {
    const { each } = await this.#run('CHECK', [pod], 1, { prevResult: JSON.parse(readFileSync(this.answerFile(pod), 'utf8')) });
    return each[0] ?? Number.NaN;
  }

  /**
   * Deletes the pods added last; then waits until the kernel and OVS have finished.
   *
   * @param namespaces whether they are deleted after the DELs, as by a runtime, and replaced
   */
  async del(
    count: number,
    width: number,
    namespaces: 'stay' | 'go' = 'stay',
  ): Promise<{ readonly each: readonly number[]; readonly allMs: number }> {
    const pods = this.attached.splice(-count);
    const interfaces = pods.map((pod) => this.#hostInterface(pod));
    const result = await this.#run('DEL', pods, width);
    const names = pods.map(({ netns }) => netns);
    if (namespaces === 'go') removeNamespaces(names);
    const standing = interfaces.some((name) => name.startsWith('sp-'));
    for (const name of interfaces) if (!name.startsWith('sp-')) await this.#launcher.untilGone(name);
    await new Promise((resolve) => setTimeout(resolve, standing && !this.#options.isHurried ? standingCalmMs : calmMs));
    if (namespaces === 'go') makeNamespaces(names);
    this.#spare.push(...pods);
    return result;
  }

  /** Adds one pod with the whole list, one plugin after another as a runtime does. @returns duration of all of them (ms) */
  async addByChain(): Promise<number> {
    const { each } = await this.add(1, 1);
    const [pod] = this.attached.slice(-1);
    if (pod === undefined) throw new Error('nothing was attached');
    const prevResult = JSON.parse(readFileSync(this.answerFile(pod), 'utf8')) as object;
    let tookMs = each[0] ?? Number.NaN;
    for (const plugin of this.#options.chained ?? []) tookMs += await this.#call('ADD', plugin, pod, prevResult);
    return tookMs;
  }

  /** Deletes the pod that was added last, from the end of the list. */
  async delByChain(): Promise<void> {
    const [pod] = this.attached.slice(-1);
    if (pod === undefined) throw new Error('nothing is attached');
    const prevResult = JSON.parse(readFileSync(this.answerFile(pod), 'utf8')) as object;
    for (const plugin of (this.#options.chained ?? []).toReversed()) await this.#call('DEL', plugin, pod, prevResult);
    await this.del(1, 1);
  }

  async #call(command: string, { type, runtimeConfig }: ChainedPlugin, pod: BenchPod, prevResult: object): Promise<number> {
    const { conf, folder, pluginFolders } = this.#options;
    const stdin = join(folder, `conf-${type}.json`);
    const { cniVersion, name } = conf;
    writeFileSync(stdin, JSON.stringify({ cniVersion, name, type, runtimeConfig, prevResult }));
    const job = this.#job(`${command}-${type}`, pod, stdin);
    const env = { ...job.env, CNI_COMMAND: command };
    const { each } = await this.#launcher.run([{ ...job, program: join(pluginFolders, type), env }], 1);
    const [run] = each;
    if (run?.exitCode !== 0) throw new Error(`${type}: ${command} failed: ${readFileSync(job.stdout, 'utf8')}`);
    return run.ms;
  }

  async version(): Promise<number> {
    const { each } = await this.#launcher.run([this.#job('VERSION', { containerId: 'none', netns: '' }, this.#confFile)], 1);
    return each[0]?.ms ?? Number.NaN;
  }

  async stop(): Promise<void> {
    await this.#launcher.stop();
  }

  async #run(command: string, pods: readonly BenchPod[], width: number, extra: Readonly<Record<string, unknown>> = {}) {
    let conf = this.#confFile;
    if (Object.keys(extra).length > 0) {
      conf = join(this.#options.folder, 'conf-extra.json');
      writeFileSync(conf, JSON.stringify({ ...this.#options.conf, ...extra }));
    }
    const { each, allMs } = await this.#launcher.run(
      pods.map((pod) => this.#job(command, pod, conf)),
      width,
    );
    const failed = each.findIndex(({ exitCode }) => exitCode !== 0);
    const pod = pods[failed];
    if (pod) throw new Error(`${this.name}: ${command} failed: ${readFileSync(this.#outputFile(command, pod), 'utf8')}`);
    return { each: each.map(({ ms }) => ms), allMs };
  }

  #job(command: string, pod: BenchPod, stdin: string): Job {
    const { program, pluginFolders } = this.#options;
    const variables = {
      CNI_COMMAND: command,
      CNI_CONTAINERID: pod.containerId,
      CNI_NETNS: `/run/netns/${pod.netns}`,
      CNI_IFNAME: 'eth0',
      CNI_PATH: pluginFolders,
      CNI_ARGS: `IgnoreUnknown=1;K8S_POD_NAMESPACE=${podNamespace};K8S_POD_NAME=${podNameOf(pod)};K8S_POD_INFRA_CONTAINER_ID=${pod.containerId}`,
      PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
    };
    rmSync(this.#outputFile(command, pod), { force: true });
    return { program, stdin, stdout: this.#outputFile(command, pod), env: variables };
  }

  #outputFile(command: string, { containerId }: BenchPod): string {
    return join(this.#options.folder, `${containerId}.${command}`);
  }

  answerFile(pod: BenchPod): string {
    return this.#outputFile('ADD', pod);
  }

  /** Name of the node's end of the pair, from the plugin's result. */
  #hostInterface(pod: BenchPod): string {
    const { interfaces } = JSON.parse(readFileSync(this.answerFile(pod), 'utf8')) as {
      interfaces: readonly { readonly name: string; readonly sandbox?: string }[];
    };
    const outside = interfaces.filter(({ sandbox }) => sandbox === undefined || sandbox === '').at(-1);
    if (!outside) throw new Error('an answer without interfaces');
    return outside.name;
  }
}
