import { existsSync, mkdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { startInBackground } from '../../../lab/machine/background.ts';
import { livingProcess, writeFileWhole } from '../../../lab/machine/files.ts';
import { inNetns } from '../../../lab/machine/netns.ts';
import { labMark, type RunResult, run, runAnyway } from '../../../lab/machine/process.ts';
import type { LabPlan, NodePlan } from '../../../lab/plan/plan.ts';
import { cgroupOf, createCgroup } from '../../../lab/real-kubernetes/cgroups.ts';
import { containerdConfig, mountScript, resolvConf, runtimeSocket } from '../../../lab/real-kubernetes/node-files.ts';
import { cniPlaces, type RuntimePaths, runtimePaths } from '../../../lab/real-kubernetes/paths.ts';
import { until } from '../../support/converge-lab.ts';
import { kubeletSupervisorScript, serviceManagerScript } from './service-manager.ts';

const startedWithinMs = 60_000;

/** Folders of a machine that kubeadm, Kubernetes and containerd use, besides those of a bare node of the lab. */
const ownPlaces = ['/etc/kubernetes', '/var/lib/etcd', '/usr/libexec/kubernetes', '/etc/containerd'];

/** Settings of containerd on the machine. */
export interface MachineImages {
  readonly pauseImage: string;
  /** Host and port of the registry, which speaks plain HTTP. */
  readonly registry: string;
}

/** A machine as kubeadm finds it: containerd runs, kubelet and kubeadm are installed, no Kubernetes and no network. */
export class Machine {
  readonly node: NodePlan;
  readonly paths: RuntimePaths;
  readonly #plan: LabPlan;
  readonly #bin: string;

  constructor(plan: LabPlan, node: NodePlan) {
    this.#plan = plan;
    this.node = node;
    const paths = runtimePaths(plan, node.name);
    const own = ownPlaces.map((place) => [place, join(paths.containerd, '..', 'places', place.replaceAll('/', '-'))] as const);
    this.paths = { ...paths, places: [...paths.places, ...own] };
    this.#bin = join(paths.dir, 'bin');
  }

  get name(): string {
    return this.node.name;
  }

  /** Installs programs under their names; replaces those of another version. @param programs paths by name */
  install(programs: Readonly<Record<string, string>>): void {
    mkdirSync(this.#bin, { recursive: true });
    for (const [name, path] of Object.entries(programs)) {
      rmSync(join(this.#bin, name), { force: true });
      symlinkSync(path, join(this.#bin, name));
    }
  }

  async start(images: MachineImages, signal: AbortSignal): Promise<void> {
    const { paths } = this;
    for (const folder of [paths.containerd, paths.netns, this.#bin, ...paths.places.map(([, folder]) => folder)])
      mkdirSync(folder, { recursive: true });
    writeFileSync(join(this.#bin, 'systemctl'), serviceManagerScript(paths.dir), { mode: 0o755 });
    writeFileWhole(join(paths.dir, 'kubelet-supervisor'), kubeletSupervisorScript(paths.dir));
    writeFileWhole(paths.resolvConf, resolvConf(this.#plan));
    this.#configureRegistry(images);
    createCgroup(cgroupOf(this.#plan.id, this.name));
    await this.#makeMounts(signal);
    this.#startContainerd();
    await until(
      async () => (await this.runAnyway(['ctr', `--address=${runtimeSocket}`, 'version'], {}, signal)).code === 0,
      startedWithinMs,
      () => `containerd of ${this.name} does not answer; see ${paths.logFile('containerd')}`,
    );
  }

  /** Command and arguments that run a program on the machine. */
  command(words: readonly string[]): { readonly command: string; readonly args: string[] } {
    const holder = livingProcess(this.paths.pidFile('mounts'));
    if (holder === undefined) throw new Error(`the mounts of ${this.name} are gone`);
    const inside = [
      `--target=${holder.pid}`,
      '--mount',
      '--net',
      '--uts',
      '--',
      'env',
      `PATH=${this.#path}`,
      `${labMark}=${this.#plan.id}`,
    ];
    return { command: 'nsenter', args: [...inside, ...words] };
  }

  async run(words: readonly string[], options: Parameters<typeof run>[2], signal: AbortSignal): Promise<string> {
    const { command, args } = this.command(words);
    return await run(command, args, options, signal);
  }

  async runAnyway(words: readonly string[], options: Parameters<typeof run>[2], signal: AbortSignal): Promise<RunResult> {
    const { command, args } = this.command(words);
    return await runAnyway(command, args, options, signal);
  }

  get #path(): string {
    return [this.#bin, process.env['PATH']].join(delimiter);
  }

  /** containerd asks the registry over HTTP, and asks it too for the names under `registry.k8s.io` that tests use. */
  #configureRegistry({ pauseImage, registry }: MachineImages): void {
    const places = { pluginFolders: [cniPlaces.bin], confFolder: cniPlaces.conf, netnsBelowState: false };
    const hosts = join(this.paths.dir, 'certs.d');
    for (const host of [registry, 'registry.k8s.io'])
      writeFileWhole(join(hosts, host, 'hosts.toml'), `server = "http://${registry}"\n[host."http://${registry}"]\n`);
    const more = `\n[plugins.'io.containerd.cri.v1.images'.registry]\n  config_path = ${JSON.stringify(hosts)}\n`;
    writeFileWhole(this.paths.containerdConfig, `${containerdConfig({ paths: this.paths, pauseImage, ...places })}${more}`);
  }

  async #makeMounts(signal: AbortSignal): Promise<void> {
    const { paths } = this;
    const mounted = join(paths.dir, 'mounted');
    await run('mount', ['--bind', paths.netns, paths.netns], {}, signal);
    await run('mount', ['--make-shared', paths.netns], {}, signal);
    writeFileWhole(paths.script, mountScript(paths, []));
    const inside = ['--mount', '--uts', '--propagation', 'unchanged', 'sh', '-c', `hostname ${this.name}; exec sh '${paths.script}'`];
    const env = { [labMark]: this.#plan.id };
    startInBackground({
      ...inNetns(this.node.netns, 'unshare', inside),
      env,
      logFile: paths.logFile('mounts'),
      pidFile: paths.pidFile('mounts'),
    });
    await until(
      () => existsSync(mounted),
      startedWithinMs,
      () => `no mounts; see ${paths.logFile('mounts')}`,
    );
  }

  #startContainerd(): void {
    const inside = this.command(['containerd', `--config=${this.paths.containerdConfig}`]);
    startInBackground({ ...inside, logFile: this.paths.logFile('containerd'), pidFile: this.paths.pidFile('containerd') });
  }
}
