import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, rmSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { CniRuntime } from '../../lab/kubelet/cni-runtime.ts';
import { writeFileWhole } from '../../lab/machine/files.ts';
import { endProcesses, labMark, markedProcesses, runAnyway } from '../../lab/machine/process.ts';
import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import { ConvergeLab } from '../support/converge-lab.ts';
import { Containerd } from './containerd.ts';
import type { PublishedPort, SandboxConfig } from './cri.ts';
import { makeTinyImage, tinyArchive, tinyImage } from './image.ts';
import { NodePlace } from './node-place.ts';

export const debianPlugins = '/usr/lib/cni';
const resultsFolder = '/var/lib/cni/results';
const cgroups = '/sys/fs/cgroup';

/** A plugin of the chain, as in the configuration list. */
export type PluginConf = { readonly type: string } & Readonly<Record<string, unknown>>;

export interface WantedPod {
  readonly name: string;
  readonly ports?: readonly PublishedPort[];
  readonly annotations?: Readonly<Record<string, string>>;
}

/** A sandbox with one container in it, on one node. */
export interface RunningPod {
  readonly node: number;
  readonly config: SandboxConfig;
  readonly sandbox: string;
  readonly container: string;
  readonly ips: readonly string[];
}

/** Real container runtimes on the nodes of a lab: one containerd per node, and a place for other runtimes. */
export class RuntimeLab {
  readonly lab: ConvergeLab;
  readonly folder: string;
  readonly #places = new Map<number, NodePlace>();
  readonly #containerds = new Map<number, Containerd>();

  private constructor(lab: ConvergeLab, folder: string) {
    this.lab = lab;
    this.folder = folder;
  }

  /** The image of all containers. */
  get archive(): string {
    return tinyArchive(this.folder);
  }

  static async start(nodes: number, signal: AbortSignal): Promise<RuntimeLab> {
    const lab = await ConvergeLab.start(nodes);
    const folder = `/run/srt-${randomBytes(3).toString('hex')}`;
    const made = new RuntimeLab(lab, folder);
    try {
      await makeTinyImage(folder, { [labMark]: lab.plan.id }, signal);
      for (const number of lab.plan.nodes.keys()) await made.#openPlace(number + 1);
      return made;
    } catch (thrown) {
      await made.remove(AbortSignal.timeout(60_000));
      throw thrown;
    }
  }

  place(node: number): NodePlace {
    const place = this.#places.get(node);
    if (!place) throw new Error(`no node ${node}`);
    return place;
  }

  containerd(node: number): Containerd {
    const containerd = this.#containerds.get(node);
    if (!containerd) throw new Error(`no containerd on node ${node}`);
    return containerd;
  }

  /** Starts it on every node, with the usual chain, or with an installed plugin and configuration. */
  async startContainerd(network: 'usual chain' | 'as installed', signal: AbortSignal): Promise<void> {
    for (const node of this.#places.keys()) {
      if (network === 'usual chain') this.writeNetwork(node, this.chain(node));
      this.#containerds.set(node, await Containerd.start(this.place(node), this.#containerdOptions(), signal));
    }
  }

  /** Starts it on one node, with further images, which must be in one archive, and with AppArmor's profiles. */
  async startConfiningContainerd(node: number, archive: string, signal: AbortSignal): Promise<Containerd> {
    const usual = this.#containerdOptions();
    const options = { ...usual, archives: [...usual.archives, archive], appArmor: true };
    const containerd = await Containerd.start(this.place(node), options, signal);
    this.#containerds.set(node, containerd);
    return containerd;
  }

  /** The plugin with its keys on this node, and more. */
  seine(node: number, more: Readonly<Record<string, unknown>> = {}): PluginConf {
    const [seine] = this.#installedChain(node);
    return { ...seine, type: 'seine', ...more };
  }

  /** The chain that is installed on nodes: ours, with these additional keys. */
  chain(node: number, more: Readonly<Record<string, unknown>> = {}): readonly PluginConf[] {
    return [this.seine(node, more), ...this.#installedChain(node).slice(1)];
  }

  #installedChain(node: number): readonly PluginConf[] {
    const { cniConf } = nodePaths(this.lab.plan.dir, this.lab.node(node).name);
    const list = JSON.parse(readFileSync(cniConf, 'utf8')) as { readonly plugins: readonly PluginConf[] };
    return list.plugins;
  }

  /** Writes the network configuration to the default folder of runtimes. containerd reloads it immediately. */
  writeNetwork(node: number, plugins: readonly PluginConf[], cniVersion = '1.0.0'): void {
    const path = join(this.place(node).path('/etc/cni/net.d'), '10-seine.conflist');
    writeFileWhole(path, JSON.stringify({ cniVersion, name: 'seine', plugins }, null, 2));
  }

  /** A kubelet's names for a pod. Its UID is a static pod's, so that the API server is not queried for it. */
  sandboxConfig(pod: WantedPod): SandboxConfig {
    return { namespace: 'default', uid: randomBytes(16).toString('hex'), cgroupParent: this.cgroupParent, ...pod };
  }

  /** Sandbox and container, as a kubelet makes them. @param command of the container */
  async startPod(node: number, pod: WantedPod, command: readonly string[], signal: AbortSignal): Promise<RunningPod> {
    const { cri } = this.containerd(node);
    const config = this.sandboxConfig(pod);
    const sandbox = await cri.runSandbox(config, signal);
    const container = await cri.startContainer({ id: sandbox, config }, { name: 'main', image: tinyImage, command }, signal);
    const { ips } = await cri.sandboxStatus(sandbox, signal);
    return { node, config, sandbox, container, ips };
  }

  async removePod(pod: RunningPod, signal: AbortSignal): Promise<void> {
    const { cri } = this.containerd(pod.node);
    await cri.stopSandbox(pod.sandbox, signal);
    await cri.removeSandbox(pod.sandbox, signal);
  }

  /** Runs a command in a pod's container; returns its output. @throws Error with its output, if its exit code is not 0 */
  async exec(pod: RunningPod, command: readonly string[], signal: AbortSignal): Promise<string> {
    return await this.execWithin(20, pod, command, signal);
  }

  /** Like `exec`; the runtime kills the command after this number of seconds. */
  async execWithin(seconds: number, pod: RunningPod, command: readonly string[], signal: AbortSignal): Promise<string> {
    const { exitCode, stdout, stderr } = await this.containerd(pod.node).cri.exec(pod.container, command, seconds, signal);
    if (exitCode !== 0) throw new Error(`${command.join(' ')} in ${pod.config.name}: exit code ${exitCode}: ${stderr || stdout}`);
    return stdout;
  }

  /**
   * GC as called by runtimes with libcni 1.2 and newer; Debian's are older.
   *
   * @param valid ids of the sandboxes that the runtime has
   */
  async collectGarbage(node: number, valid: readonly string[], signal: AbortSignal): Promise<void> {
    const place = this.place(node);
    const runtime = new CniRuntime({
      nodeNetns: this.lab.node(node).netns,
      binFolders: [place.path('/opt/cni/bin')],
      cacheFolder: join(place.folder, 'gc-cache'),
    });
    const network = { name: 'seine', version: '1.1.0', checks: true, collectsGarbage: true, plugins: [this.seine(node)] };
    await runtime.gc(
      network,
      valid.map((containerId) => ({ containerId, ifName: 'eth0' })),
      signal,
    );
  }

  /** libcni's cache on a node: a file per attachment, whose name begins with the network's. */
  results(node: number): readonly string[] {
    return entriesOf(this.place(node).path(resultsFolder));
  }

  /** Removes everything, whatever happened before; errors are thrown at the end. */
  async remove(signal: AbortSignal): Promise<void> {
    const problems: unknown[] = [];
    const attempt = (work: Promise<unknown>) => work.catch((thrown: unknown) => problems.push(thrown));
    for (const containerd of this.#containerds.values()) await attempt(removeSandboxes(containerd, signal));
    for (const containerd of this.#containerds.values()) await attempt(containerd.kill('SIGTERM'));
    const bound = [...this.#places.values()].flatMap((place) => boundNamespaces(place));
    await attempt(this.lab.remove());
    await attempt(endProcesses(markedProcesses(this.lab.plan.id), 0));
    for (const place of this.#places.values()) await attempt(place.close());
    for (const path of bound) await attempt(unbind(path, signal));
    removeCgroups(this.cgroupParent);
    rmSync(this.folder, { recursive: true, force: true });
    if (problems.length > 0) throw new AggregateError(problems, 'not everything could be removed');
  }

  get cgroupParent(): string {
    return `/seine-rt-${this.lab.plan.id}`;
  }

  #containerdOptions() {
    const folders = { confFolder: '/etc/cni/net.d', pluginFolder: '/opt/cni/bin' };
    return { image: tinyImage, archives: [this.archive], ...folders, appArmor: false };
  }

  async #openPlace(number: number): Promise<void> {
    const place = await NodePlace.open({ netns: this.lab.node(number).netns, labId: this.lab.plan.id }, join(this.folder, `n${number}`));
    this.#places.set(number, place);
    const [conf, bin] = [place.path('/etc/cni/net.d'), place.path('/opt/cni/bin')];
    for (const folder of [conf, bin]) mkdirSync(folder, { recursive: true });
    for (const name of readdirSync(debianPlugins)) symlinkSync(join(debianPlugins, name), join(bin, name));
    symlinkSync(join(labPaths(this.lab.plan.dir).bin, 'seine'), join(bin, 'seine'));
  }
}

async function removeSandboxes(containerd: Containerd, signal: AbortSignal): Promise<void> {
  for (const id of await containerd.cri.sandboxes(signal)) {
    await containerd.cri.stopSandbox(id, signal);
    await containerd.cri.removeSandbox(id, signal);
  }
}

/** Namespaces that the node's runtimes still have results for: libcni keeps a file per attachment, which names it. */
function boundNamespaces(place: NodePlace): readonly string[] {
  const folder = place.path(resultsFolder);
  const texts = entriesOf(folder).map((name) => readFileSync(join(folder, name), 'utf8'));
  return [...new Set(texts.flatMap((text) => text.match(/\/run\/netns\/(cni|netns)-[0-9a-f-]+/g) ?? []))];
}

const entriesOf = (folder: string): readonly string[] => (existsSync(folder) ? readdirSync(folder).toSorted() : []);

async function unbind(path: string, signal: AbortSignal): Promise<void> {
  await runAnyway('umount', [path], {}, signal);
  rmSync(path, { force: true });
}

/** Folders of the kernel's, deepest first: folders are removed, not their files. */
function removeCgroups(name: string): void {
  for (const controller of readdirSync(cgroups)) removeCgroup(join(cgroups, controller, name));
}

function removeCgroup(folder: string): void {
  if (!existsSync(folder)) return;
  for (const entry of readdirSync(folder, { withFileTypes: true })) if (entry.isDirectory()) removeCgroup(join(folder, entry.name));
  rmdirSync(folder);
}
