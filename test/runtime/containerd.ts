import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { until } from '../support/converge-lab.ts';
import { CriClient } from './cri.ts';
import { endOf, type NodePlace } from './node-place.ts';

const startMs = 30_000;

export interface ContainerdOptions {
  /** Image of the sandboxes. */
  readonly image: string;
  /** Archives of images, that one's first. */
  readonly archives: readonly string[];
  /** Folders of the network configuration and the plugins. */
  readonly confFolder: string;
  readonly pluginFolder: string;
  /** True if containers get AppArmor's profiles: the host must have AppArmor. */
  readonly appArmor: boolean;
}

/** containerd on one node, with its data in the node's folder. */
export class Containerd {
  readonly cri: CriClient;
  readonly #place: NodePlace;
  readonly #options: ContainerdOptions;
  #process: ChildProcess | undefined;

  private constructor(place: NodePlace, options: ContainerdOptions) {
    this.#place = place;
    this.#options = options;
    this.cri = new CriClient(this.#socket);
  }

  /** Starts it and waits until it serves and has the image. */
  static async start(place: NodePlace, options: ContainerdOptions, signal: AbortSignal): Promise<Containerd> {
    const containerd = new Containerd(place, options);
    mkdirSync(join(place.folder, 'containerd'), { recursive: true });
    writeFileSync(join(place.folder, 'containerd.toml'), configuration(place.folder, containerd.#socket, options));
    await containerd.start(signal);
    await containerd.import('k8s.io', signal);
    // The CRI part learns of a new image from the rest of containerd, a little later.
    await until(
      () => containerd.cri.hasImage(options.image, signal),
      startMs,
      () => `no ${options.image}`,
    );
    return containerd;
  }

  /** Restarts it after `kill`, with its remaining state. */
  async start(signal: AbortSignal): Promise<void> {
    const log = join(this.#place.folder, 'containerd.log');
    const child = this.#place.start('containerd', ['--config', join(this.#place.folder, 'containerd.toml')], log);
    this.#process = child;
    const serves = () => {
      if (child.exitCode !== null) throw new Error(`containerd ended:\n${endOf(log)}`);
      return this.cri.version(signal).then(
        () => true,
        () => false,
      );
    };
    await until(serves, startMs, () => `containerd does not serve:\n${endOf(log)}`);
  }

  /** Ends it like a crash; its containers continue. */
  async kill(name: 'SIGKILL' | 'SIGTERM' = 'SIGKILL'): Promise<void> {
    const child = this.#process;
    this.#process = undefined;
    this.cri.close();
    if (child !== undefined && child.exitCode === null && child.signalCode === null && child.kill(name)) await once(child, 'exit');
  }

  /** Removes containers without its CRI part, and restarts it: it then has no record of them, and no plugin was called. */
  async forget(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const inCri = (...args: readonly string[]) => this.ctr(['--namespace', 'k8s.io', ...args], signal);
    for (const id of ids) {
      await inCri('tasks', 'kill', '--signal', 'KILL', id);
      await until(
        async () => !(await inCri('tasks', 'ls')).includes(id),
        startMs,
        () => `${id} does not end`,
      );
      await inCri('containers', 'rm', id);
      // Before 2.0 a sandbox is stored as a container alone.
      await inCri('sandboxes', 'rm', '--force', id).catch(() => undefined);
    }
    await this.kill();
    await this.start(signal);
  }

  /** Runs `ctr`, containerd's own client. */
  async ctr(args: readonly string[], signal: AbortSignal): Promise<string> {
    return await this.#place.run('ctr', ['--address', this.#socket, ...args], signal);
  }

  /** @param namespace of containerd, e.g. `default` for `ctr` */
  async import(namespace: string, signal: AbortSignal): Promise<void> {
    for (const archive of this.#options.archives) await this.ctr(['--namespace', namespace, 'images', 'import', archive], signal);
  }

  get #socket(): string {
    return join(this.#place.folder, 'containerd.sock');
  }
}

/** `restrict_oom_score_adj`: a host that is a container itself may not lower scores. */
function configuration(folder: string, socket: string, options: ContainerdOptions): string {
  const cri = 'plugins."io.containerd.grpc.v1.cri"';
  return `version = 2
root = "${join(folder, 'containerd', 'root')}"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.opt"]

[grpc]
address = "${socket}"

[${cri}]
sandbox_image = "${options.image}"
disable_apparmor = ${!options.appArmor}
restrict_oom_score_adj = true
stream_server_address = "127.0.0.1"

[${cri}.containerd]
snapshotter = "overlayfs"

[${cri}.cni]
bin_dir = "${options.pluginFolder}"
conf_dir = "${options.confFolder}"
`;
}
