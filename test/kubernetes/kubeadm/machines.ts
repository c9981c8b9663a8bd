import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { raiseNode } from '../../../lab/daemon/node-runner.ts';
import type { PodStatusLine } from '../../../lab/daemon/status.ts';
import { removeLab } from '../../../lab/down.ts';
import { writeFileWhole } from '../../../lab/machine/files.ts';
import { runIn } from '../../../lab/machine/netns.ts';
import { createSwitches } from '../../../lab/node/topology.ts';
import { labPaths, realLabDir } from '../../../lab/plan/names.ts';
import { type LabPlan, planLab } from '../../../lab/plan/plan.ts';
import { attachedPods } from '../../../lab/real-kubernetes/attachments.ts';
import { privateFolder } from '../../../src/base/files/private-folder.ts';
import type { Family } from '../../../src/base/net/ip.ts';
import { print, RealCluster } from '../cluster.ts';
import { Machine } from './machine.ts';
import type { KubeadmPrograms, KubeadmTestPrograms } from './programs.ts';
import { Registry } from './registry.ts';

const network = 'seine';
export const apiServerPort = 6443;

interface MachinesOptions {
  readonly dir: string;
  readonly nodes: number;
  readonly families: readonly Family[];
  readonly programs: KubeadmTestPrograms;
}

/** Machines without Kubernetes, an image registry, and an address in front of the machines that become control planes. */
export class Machines {
  readonly plan: LabPlan;
  readonly registry: Registry;
  readonly all: readonly Machine[];
  readonly #programs: KubeadmTestPrograms;

  private constructor(plan: LabPlan, programs: KubeadmTestPrograms) {
    this.plan = plan;
    this.#programs = programs;
    this.registry = new Registry(plan, programs.crane);
    this.all = plan.nodes.map((node) => new Machine(plan, node));
  }

  /** Namespaces, wires and the registry. Call `start` when the registry has the images. */
  static async up({ dir, nodes, families, programs }: MachinesOptions, signal: AbortSignal): Promise<Machines> {
    const real = realLabDir(dir);
    await removeLab(real, signal);
    privateFolder(real);
    const plan = planLab({ dir: real, nodes, families, tunnel: 'geneve', datapath: 'netdev', kubernetes: programs.whole, bare: true });
    writeFileWhole(labPaths(real).state, JSON.stringify(plan));
    const machines = new Machines(plan, programs);
    await createSwitches(plan, signal);
    await Promise.all(plan.nodes.map((node) => raiseNode(plan, node, signal)));
    await machines.registry.start(signal);
    return machines;
  }

  static async down(dir: string, signal: AbortSignal): Promise<void> {
    const { processes, namespaces } = await removeLab(realLabDir(dir), signal);
    print(`removed ${processes} processes and ${namespaces} namespaces`);
  }

  /** Address of the API server that every machine reaches without a network of pods. */
  get controlPlaneAddress(): string {
    return this.plan.management.ip;
  }

  machine(name: string): Machine {
    const found = this.all.find((machine) => machine.name === name);
    if (found === undefined) throw new Error(`no machine ${name}`);
    return found;
  }

  /** Starts containerd on all machines, with programs of a version. */
  async start(version: KubeadmPrograms, pauseImage: string, signal: AbortSignal): Promise<void> {
    for (const machine of this.all) this.install(machine, version);
    await Promise.all(this.all.map((machine) => machine.start({ pauseImage, registry: this.registry.host }, signal)));
  }

  /** Puts kubeadm and kubelet of a version on a machine, like an upgrade of the packages. */
  install(machine: Machine, { kubeadm, kubelet }: Pick<KubeadmPrograms, 'kubeadm' | 'kubelet'>): void {
    const { whole, runc } = this.#programs;
    const others = ['kubectl', 'containerd', 'containerd-shim-runc-v2', 'ctr'].map((name) => [name, join(whole.programs, name)] as const);
    machine.install({ ...Object.fromEntries(others), runc, kubeadm, kubelet });
  }

  /** Forwards connections to the address of the control plane to these machines, in turn. */
  async balance(machines: readonly Machine[], signal: AbortSignal): Promise<void> {
    const targets = machines.map(({ node }, number) => `${number} : ${node.managementIp}`).join(', ');
    const { netns, ip } = this.plan.management;
    const rules = `add table ip balancer
delete table ip balancer
table ip balancer {
  chain before { type nat hook prerouting priority dstnat; ip daddr ${ip} tcp dport ${apiServerPort} dnat to numgen inc mod ${machines.length} map { ${targets} }; }
  chain after { type nat hook postrouting priority srcnat; tcp dport ${apiServerPort} masquerade; }
}
`;
    // With br_netfilter the bridge would send translated packets itself, without the rule for their source.
    await runIn(netns, 'sysctl', ['-eqw', 'net.ipv4.ip_forward=1', 'net.bridge.bridge-nf-call-iptables=0'], {}, signal);
    await runIn(netns, 'nft', ['-f', '-'], { input: rules }, signal);
  }

  /** The cluster of the first `joined` machines, as its administrator sees it, who works on the first one. */
  cluster(joined: number, signal: AbortSignal): RealCluster {
    const [first] = this.all;
    if (first === undefined) throw new Error('there are no machines');
    return new RealCluster(
      { ...this.plan, nodes: this.plan.nodes.slice(0, joined) },
      {
        env: { KUBECONFIG: '/etc/kubernetes/admin.conf' },
        inside: (command, args) => first.command([command, ...args]),
        onNode: async (node, command) => await this.machine(node).run(command, {}, signal),
        pods: async () => this.#pods(),
      },
      signal,
    );
  }

  /** Images of a version in the registry, under the names that kubeadm asks for. @returns the name of the pause image */
  async pushKubernetes({ version, images }: KubeadmPrograms, names: readonly string[], signal: AbortSignal): Promise<void> {
    const archives = readdirSync(images).map((file) => file.replace(/\.tar$/, ''));
    for (const name of names) {
      const program = archives.find((each) => name.includes(`/${each}:`));
      if (program === undefined) continue;
      await this.registry.push(join(images, `${program}.tar`), name.slice(name.lastIndexOf('/') + 1), signal);
    }
    print(`the registry has the images of Kubernetes ${version}`);
  }

  #pods(): readonly PodStatusLine[] {
    return this.all.flatMap(({ name: node, paths }) =>
      attachedPods(paths, network).map(({ containerId, ...pod }) => ({ ...pod, node, containerID: containerId })),
    );
  }
}
