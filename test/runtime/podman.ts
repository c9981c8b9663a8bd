import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { NodePlace } from './node-place.ts';

/** Settings of podman without an option. A host that is a container itself may not raise limits. */
const configuration = (network: string) => `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "runc"
[network]
network_backend = "cni"
cni_plugin_dirs = ["/opt/cni/bin"]
network_config_dir = "/etc/cni/net.d"
default_network = "${network}"
`;

/** podman with its CNI back end on one node, with its data in the node's folder. It has no daemon. */
export class Podman {
  readonly #place: NodePlace;
  readonly #options: readonly string[];
  readonly #cgroupParent: string;

  /** @param options.network the name in the CNI configuration list */
  constructor(place: NodePlace, options: { readonly network: string; readonly cgroupParent: string }) {
    const folder = join(place.folder, 'podman');
    mkdirSync(folder, { recursive: true });
    writeFileSync(join(folder, 'containers.conf'), configuration(options.network));
    this.#place = place;
    this.#cgroupParent = options.cgroupParent;
    const at = (name: string) => join(folder, name);
    this.#options = ['--root', at('root'), '--runroot', at('run'), '--tmpdir', at('tmp'), '--storage-driver', 'overlay'];
  }

  /** Runs a subcommand to its end; returns its output. @throws SeineError `REFUSED` with its output */
  async call(args: readonly string[], signal: AbortSignal): Promise<string> {
    const env = { CONTAINERS_CONF: join(this.#place.folder, 'podman', 'containers.conf') };
    return await this.#place.run('podman', [...this.#options, ...args], signal, env);
  }

  /** Starts a container and leaves it running. */
  async start(name: string, options: readonly string[], image: string, command: readonly string[], signal: AbortSignal): Promise<void> {
    const parent = ['--cgroup-parent', this.#cgroupParent];
    await this.call(['run', '--detach', '--pull', 'never', '--name', name, ...parent, ...options, image, ...command], signal);
  }

  /** Its addresses, as reported by podman. */
  async addresses(name: string, signal: AbortSignal): Promise<readonly string[]> {
    const [found] = JSON.parse(await this.call(['inspect', name], signal)) as readonly Inspected[];
    return Object.values(found?.NetworkSettings.Networks ?? {}).flatMap((network) =>
      [network.IPAddress, network.GlobalIPv6Address].filter((address) => address !== ''),
    );
  }
}

interface Inspected {
  readonly NetworkSettings: {
    readonly Networks: Readonly<Record<string, { readonly IPAddress: string; readonly GlobalIPv6Address: string }>>;
  };
}
