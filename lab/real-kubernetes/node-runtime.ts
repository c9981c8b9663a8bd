import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { startInBackground } from '../machine/background.ts';
import { livingProcess, writeFileWhole } from '../machine/files.ts';
import { inNetns } from '../machine/netns.ts';
import { endProcesses, type ProcessId, run, runAnyway, signalProcess } from '../machine/process.ts';
import { netnsFolder, nodePaths } from '../plan/names.ts';
import type { KubernetesPrograms, LabPlan, NodePlan } from '../plan/plan.ts';
import { cgroupOf, createCgroup } from './cgroups.ts';
import type { ControlPlane } from './control-plane.ts';
import { containerdConfig, kubeletArguments, kubeletConfig, mountScript, resolvConf, runtimeSocket } from './node-files.ts';
import { cniPlaces, type RuntimePaths, runtimePaths } from './paths.ts';

export type NodeProgram = 'containerd' | 'kubelet';

/** The end of a program is noticed immediately; this limit is for emulated hosts that share their CPUs. */
const startDeadlineMs = 480_000;
const pollMs = 50;
const graceMs = 5_000;

interface NodeRuntimeOptions {
  readonly plan: LabPlan;
  readonly node: NodePlan;
  readonly programs: KubernetesPrograms;
  readonly controlPlane: ControlPlane;
  readonly pluginFolders: readonly string[];
}

/** containerd and the kubelet of one node, in mounts of their own. They outlive this process. */
export class NodeRuntime {
  readonly paths: RuntimePaths;
  readonly #options: NodeRuntimeOptions;

  constructor(options: NodeRuntimeOptions) {
    this.#options = options;
    this.paths = runtimePaths(options.plan, options.node.name);
  }

  /** Starts what does not run; resolves when containerd answers and has the images, and the kubelet was started. */
  async start(signal: AbortSignal): Promise<void> {
    await this.#prepare(signal);
    await this.startContainerd(signal);
    await this.#importImages(signal);
    this.startKubelet();
  }

  async startContainerd(signal: AbortSignal): Promise<void> {
    this.#run('containerd', [`--config=${this.paths.containerdConfig}`]);
    await this.#until(`containerd of ${this.#options.node.name}`, 'containerd', () => this.#ctrAnswers(signal), signal);
  }

  startKubelet(): void {
    const { plan, node } = this.#options;
    this.#run('kubelet', kubeletArguments(plan, node, this.paths, join(this.paths.dir, 'kubeconfig')));
  }

  /** @throws SeineError `INVALID_INPUT` if it does not run */
  async stop(program: NodeProgram): Promise<void> {
    await endProcesses([this.#running(program)], graceMs);
  }

  /** Kills it, like a crash; containers continue. @throws SeineError `INVALID_INPUT` if it does not run */
  async kill(program: NodeProgram): Promise<void> {
    const running = this.#running(program);
    signalProcess(running, 'SIGKILL');
    await endProcesses([running], 0);
  }

  process(program: NodeProgram): ProcessId | undefined {
    return livingProcess(this.paths.pidFile(program));
  }

  #running(program: NodeProgram): ProcessId {
    const running = this.process(program);
    if (running === undefined) throw new SeineError('INVALID_INPUT', `no ${program} runs on ${this.#options.node.name}`);
    return running;
  }

  async #prepare(signal: AbortSignal): Promise<void> {
    const { plan, node, controlPlane, pluginFolders } = this.#options;
    const { paths } = this;
    for (const folder of [paths.containerd, paths.kubelet, paths.netns, paths.staticPods]) mkdirSync(folder, { recursive: true });
    const { images } = this.#options.programs;
    const choices = {
      paths,
      pauseImage: await pauseImageOf(images, signal),
      ...(plan.bare
        ? { pluginFolders: [cniPlaces.bin], confFolder: cniPlaces.conf }
        : { pluginFolders, confFolder: nodePaths(plan.dir, node.name).cniConfFolder }),
      netnsBelowState: !plan.bare,
    };
    writeFileWhole(paths.containerdConfig, containerdConfig(choices));
    writeFileWhole(paths.kubeletConfig, kubeletConfig(plan, node.name, paths, controlPlane.certificates.file('ca', 'crt')));
    writeFileWhole(paths.resolvConf, resolvConf(plan));
    writeFileWhole(join(paths.dir, 'kubeconfig'), controlPlane.kubeconfig(node.name, plan.management.apiServerUrl));
    createCgroup(cgroupOf(plan.id, node.name));
    if (livingProcess(paths.pidFile('mounts')) === undefined) await this.#makeMounts(signal);
  }

  async #makeMounts(signal: AbortSignal): Promise<void> {
    const { paths } = this;
    // A shared mount: the folder is bind-mounted on itself, and mounts of a node there are visible outside.
    const there = await runAnyway('mountpoint', ['-q', paths.netns], {}, signal);
    if (there.code !== 0) await run('mount', ['--bind', paths.netns, paths.netns], {}, signal);
    await run('mount', ['--make-shared', paths.netns], {}, signal);
    for (const [, folder] of paths.places) mkdirSync(folder, { recursive: true });
    writeFileWhole(paths.script, mountScript(paths, this.#options.plan.bare ? [] : [netnsFolder]));
    rmSync(join(paths.dir, 'mounted'), { force: true });
    const inside = inNetns(this.#options.node.netns, 'unshare', ['--mount', '--propagation', 'unchanged', 'sh', paths.script]);
    startInBackground({ ...inside, logFile: paths.logFile('mounts'), pidFile: paths.pidFile('mounts') });
    await this.#until('mounts', 'mounts', async () => existsSync(join(paths.dir, 'mounted')), signal);
  }

  #run(program: NodeProgram, args: readonly string[]): void {
    const { programs } = this.#options.programs;
    const inside = this.#inside(join(programs, program), args);
    const env = { PATH: `${programs}:${process.env['PATH'] ?? ''}` };
    startInBackground({ ...inside, env, logFile: this.paths.logFile(program), pidFile: this.paths.pidFile(program) });
  }

  /** Command and arguments that run something with the mounts and the network of the node. */
  #inside(command: string, args: readonly string[]): { command: string; args: string[] } {
    const holder = livingProcess(this.paths.pidFile('mounts'));
    if (holder === undefined) throw new SeineError('UNAVAILABLE', `the mounts of ${this.#options.node.name} are gone`);
    return { command: 'nsenter', args: [`--target=${holder.pid}`, '--mount', '--net', '--', command, ...args] };
  }

  async #ctrAnswers(signal: AbortSignal): Promise<boolean> {
    const { code } = await this.#ctr(['version'], signal);
    return code === 0;
  }

  #ctr(args: readonly string[], signal: AbortSignal) {
    const inside = this.#inside(join(this.#options.programs.programs, 'ctr'), [
      `--address=${runtimeSocket}`,
      '--namespace=k8s.io',
      ...args,
    ]);
    return runAnyway(inside.command, inside.args, {}, signal);
  }

  /** Imports one after the other: they have layers in common. */
  async #importImages(signal: AbortSignal): Promise<void> {
    const done = join(this.paths.containerd, 'imported');
    const { images } = this.#options.programs;
    if (existsSync(done)) return;
    for (const file of readdirSync(images).toSorted()) {
      const { code, stderr } = await this.#ctr(['images', 'import', '--local', join(images, file)], signal);
      if (code !== 0) throw new SeineError('REFUSED', `import of ${file} on ${this.#options.node.name}: ${stderr.slice(-500)}`);
    }
    writeFileWhole(done, '');
  }

  async #until(what: string, program: string, holds: () => Promise<boolean>, signal: AbortSignal): Promise<void> {
    const deadline = performance.now() + startDeadlineMs;
    while (!(await holds())) {
      const ended = livingProcess(this.paths.pidFile(program)) === undefined;
      if (ended || performance.now() > deadline)
        throw new SeineError('UNAVAILABLE', `${what} ${ended ? 'ended' : 'does not answer'}; see ${this.paths.logFile(program)}`);
      await sleep(pollMs, undefined, { signal });
    }
  }
}

/** Name of the pause image in its archive. */
async function pauseImageOf(images: string, signal: AbortSignal): Promise<string> {
  const manifest: unknown = JSON.parse(await run('tar', ['-xOf', join(images, 'pause.tar'), 'manifest.json'], {}, signal));
  const [image] = Array.isArray(manifest) ? manifest : [];
  const [tag] = typeof image === 'object' && image !== null && 'RepoTags' in image && Array.isArray(image.RepoTags) ? image.RepoTags : [];
  if (typeof tag !== 'string') throw new SeineError('PROTOCOL', `${images}: the pause image has no name`);
  return tag;
}
