import { join } from 'node:path';
import { labFolderOf } from '../../../build/test-run/lab-folder.mjs';
import { packageRoot } from '../../../lab/machine/installation.ts';
import { agentImage, imagesOfRelease, ovsImage, podmanOptions, releaseStorage } from '../../runtime/image-builder.ts';
import { print, type RealCluster } from '../cluster.ts';
import { commandOf } from '../page-commands.ts';
import { Kubeadm, page } from './kubeadm.ts';
import type { Machine } from './machine.ts';
import { Machines } from './machines.ts';
import { type KubeadmPrograms, kubeadmTestPrograms } from './programs.ts';
import { type PushedImage, type Registry, sizeLine } from './registry.ts';

/** Options of the lab besides those of the page: no kernel data path, and the address of the node is on a bridge. */
export const labOptions = '--datapath netdev --set transportInterface=br-phy';
export const labValues = '--set datapath=netdev --set agent.transportInterface=br-phy';

/** Images of one version of Seine in the registry. */
export interface SeineImages {
  readonly agent: PushedImage;
  readonly ovs: PushedImage;
}

interface SceneOptions {
  /** Part of the lab's folder. */
  readonly name: string;
  /** Machines that are part of the cluster from its beginning. */
  readonly nodes: number;
  /** Machines that are not. */
  readonly spare?: number;
  /** Kubernetes of the cluster; `current` if absent. */
  readonly version?: 'current' | 'before';
}

interface ClusterOptions {
  readonly withKubeProxy?: boolean;
  /** Control-plane nodes, with the first one. */
  readonly controlPlanes?: number;
}

/** A cluster that kubeadm made on machines of the lab, whose images all come from the registry of the lab. */
export class KubeadmScene {
  readonly programs = kubeadmTestPrograms();
  readonly machines: Machines;
  readonly kubeadm: Kubeadm;
  readonly cluster: RealCluster;
  readonly #signal: AbortSignal;

  private constructor(machines: Machines, joined: number, signal: AbortSignal) {
    this.machines = machines;
    this.kubeadm = new Kubeadm(machines, signal);
    this.cluster = machines.cluster(joined, signal);
    this.#signal = signal;
  }

  /** Machines on which containerd runs, and a registry with the images of Kubernetes. */
  static async up({ name, nodes, spare = 0, version = 'current' }: SceneOptions, signal: AbortSignal): Promise<KubeadmScene> {
    const programs = kubeadmTestPrograms();
    const { [version]: kubernetes } = programs;
    const machines = await Machines.up({ dir: labFolderOf(name), nodes: nodes + spare, families: ['ipv4', 'ipv6'], programs }, signal);
    const scene = new KubeadmScene(machines, nodes, signal);
    const names = await scene.pushKubernetes(kubernetes);
    await machines.registry.push(join(programs.whole.images, 'agnhost.tar'), 'e2e-test-images/agnhost:2.66.1', signal);
    await machines.start(kubernetes, names.find((each) => each.includes('/pause:')) ?? '', signal);
    return scene;
  }

  static async down(name: string): Promise<void> {
    if (process.env['SEINE_TEST_KEEP'] === undefined) await Machines.down(labFolderOf(name), AbortSignal.timeout(300_000));
  }

  get registry(): Registry {
    return this.machines.registry;
  }

  get first(): Machine {
    const [first] = this.machines.all;
    if (first === undefined) throw new Error('there are no machines');
    return first;
  }

  async pushKubernetes(programs: KubeadmPrograms): Promise<readonly string[]> {
    const names = await this.kubeadm.imageNames(programs.kubeadm, programs.version);
    await this.machines.pushKubernetes(programs, names, this.#signal);
    return names;
  }

  /** @param release a version that was released; the checkout if absent */
  async pushSeine(release?: string): Promise<SeineImages> {
    const names = release === undefined ? { agent: agentImage, ovs: ovsImage } : imagesOfRelease(release);
    const push = async (what: 'agent' | 'ovs') =>
      await this.registry.pushFromPodman(podmanOptions, names[what], `seine/${what}:${release ?? 'test'}`, this.#signal);
    try {
      const pushed = { agent: await push('agent'), ovs: await push('ovs') };
      for (const image of Object.values(pushed)) print(sizeLine(image));
      return pushed;
    } finally {
      await releaseStorage(this.#signal);
    }
  }

  /** Creates the cluster on the first machine, and joins the other nodes. @returns time after `kubeadm init` (ms, `performance.now()`) */
  async create(version: KubeadmPrograms, { withKubeProxy = false, controlPlanes = 1 }: ClusterOptions = {}): Promise<number> {
    const [controllers, workers] = [
      this.machines.all.slice(1, controlPlanes),
      this.machines.all.slice(controlPlanes, this.cluster.nodes.length),
    ];
    await this.machines.balance([this.first], this.#signal);
    await this.kubeadm.init(this.first, version.version, { withKubeProxy });
    const initialisedMs = performance.now();
    const secrets = await this.kubeadm.joinSecrets(this.first);
    for (const machine of controllers)
      await this.kubeadm.join(machine, { ...secrets, key: await this.kubeadm.uploadCertificates(this.first) });
    if (controllers.length > 0) await this.machines.balance([this.first, ...controllers], this.#signal);
    await Promise.all(workers.map((worker) => this.kubeadm.join(worker, secrets)));
    return initialisedMs;
  }

  /** A command of a page with the values of this cluster. */
  filled(command: string, { agent, ovs }: SeineImages): string {
    const names = { 'REGISTRY/agent@DIGEST': agent, 'REGISTRY/ovs@DIGEST': ovs };
    const withImages = Object.entries(names).reduce((text, [word, image]) => text.replace(word, this.registry.byDigest(image)), command);
    return withImages.replace('CONTROL-PLANE-ADDRESS', this.machines.controlPlaneAddress);
  }

  /** Renders the manifest by the page, with the options of this lab. */
  async render(images: SeineImages, { withKubeProxy = false } = {}): Promise<void> {
    const command = commandOf(page, 'Install with the manifest', 'npm run render');
    const chosen = withKubeProxy ? command.replace(/ --api-server \S+/, '') : command;
    await this.cluster.type(`${this.filled(chosen, images)} ${labOptions}`);
  }

  /** Installs Seine by the page. */
  async installManifest(images: SeineImages, options: { readonly withKubeProxy?: boolean } = {}): Promise<void> {
    await this.render(images, options);
    for (const command of ['kubectl apply', 'kubectl wait']) await this.cluster.type(commandOf(page, 'Install with the manifest', command));
  }

  async installChart(images: SeineImages): Promise<void> {
    const heading = 'Install with Helm';
    await this.helm(`${this.filled(commandOf(page, heading, 'helm install'), images)} ${labValues}`);
    await this.cluster.type(commandOf(page, heading, 'kubectl wait'));
  }

  /** A command of a page that calls Helm. */
  async helm(command: string): Promise<string> {
    const here = command
      .replace('build/helm/seine', join(packageRoot, 'build', 'helm', 'seine'))
      .replace('oci://REGISTRY', `--plain-http oci://${this.registry.host}`)
      .replace('CONTROL-PLANE-ADDRESS', this.machines.controlPlaneAddress);
    return await this.#typeHelm(here);
  }

  /** Pushes the chart of a checkout. @param version its version in the registry */
  async pushChart(checkout: string, version: string): Promise<void> {
    await this.#typeHelm(`helm package ${join(checkout, 'build', 'helm', 'seine')} --version ${version}`);
    await this.#typeHelm(`helm push seine-${version}.tgz oci://${this.registry.host}/seine/charts --plain-http`);
  }

  async #typeHelm(command: string): Promise<string> {
    return await this.cluster.type(`PATH=${join(this.programs.helm, '..')}:$PATH; ${command}`);
  }

  /** @returns the status that an agent reports */
  async check(): Promise<string> {
    const heading = 'Check the installation';
    await this.cluster.type(commandOf(page, heading, 'kubectl -n seine-system rollout'));
    return await this.cluster.type(commandOf(page, heading, 'kubectl -n seine-system exec'));
  }
}
