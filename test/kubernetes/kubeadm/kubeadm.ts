import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments, stringify } from 'yaml';
import { writeFileWhole } from '../../../lab/machine/files.ts';
import { packageRoot } from '../../../lab/machine/installation.ts';
import { runAnyway } from '../../../lab/machine/process.ts';
import { cgroupOf } from '../../../lab/real-kubernetes/cgroups.ts';
import { runtimeSocket } from '../../../lab/real-kubernetes/node-files.ts';
import { print } from '../cluster.ts';
import { shellBlocks } from '../page-blocks.ts';
import { commandOf } from '../page-commands.ts';
import type { Machine } from './machine.ts';
import type { Machines } from './machines.ts';

export const page = 'docs/installation/kubeadm.md';
const controlPlaneHeading = 'Add a control-plane node';

/**
 * Preflight checks that cannot pass on machines of the lab, with the reason. `SystemVerification` reads the configuration of the kernel and refuses
 * cgroup v1; the host of the lab may have neither a readable configuration nor cgroup v2.
 */
export const ignoredChecks: Readonly<Record<string, string>> = {
  SystemVerification: 'the host has no readable kernel configuration, and may have cgroup v1',
};

/** A host that is shared with other work answers some requests late: the controllers would end after ten seconds without a renewed lease. */
const patientLeader = Object.entries({ 'leader-elect-lease-duration': '60s', 'leader-elect-renew-deadline': '50s' }).map(
  ([name, value]) => ({
    name,
    value,
  }),
);

/** Values that a node needs to join. */
export interface JoinSecrets {
  readonly token: string;
  readonly hash: string;
  /** Decrypts the certificates of the control plane. */
  readonly key?: string;
}

interface Document {
  readonly kind: string;
  readonly [key: string]: unknown;
}

/** kubeadm on machines of the lab, with the commands and configuration of the page. What the lab adds to the configuration is here alone. */
export class Kubeadm {
  readonly #machines: Machines;
  readonly #signal: AbortSignal;

  constructor(machines: Machines, signal: AbortSignal) {
    this.#machines = machines;
    this.#signal = signal;
  }

  /** Names of the images that a version asks for. */
  async imageNames(kubeadm: string, version: string): Promise<readonly string[]> {
    const [first] = this.#machines.all;
    if (first === undefined) throw new Error('there are no machines');
    const repository = `--image-repository=${this.#machines.registry.host}`;
    const { stdout, stderr } = await runAnyway(
      kubeadm,
      ['config', 'images', 'list', repository, `--kubernetes-version=v${version}`],
      {},
      this.#signal,
    );
    const names = stdout.trim().split('\n');
    if (names.length < 5) throw new Error(`kubeadm lists ${stdout}${stderr}`);
    return names;
  }

  /** Creates the cluster on a machine. @param options of the command besides those of the page */
  async init(machine: Machine, version: string, { withKubeProxy = false } = {}): Promise<void> {
    const extra: readonly Document[] = [
      {
        kind: 'InitConfiguration',
        localAPIEndpoint: { advertiseAddress: machine.node.managementIp },
        nodeRegistration: this.#registration(machine),
      },
      {
        kind: 'ClusterConfiguration',
        kubernetesVersion: `v${version}`,
        imageRepository: this.#machines.registry.host,
        etcd: { local: { extraArgs: [{ name: 'unsafe-no-fsync', value: 'true' }] } },
        controllerManager: { extraArgs: patientLeader },
        scheduler: { extraArgs: patientLeader },
      },
    ];
    this.#configure(machine, ['Create the cluster'], 'kubeadm.yaml', extra, [
      kubeletDocument(machine),
      ...(withKubeProxy ? [kubeProxyDocument] : []),
    ]);
    const command = commandOf(page, 'Create the cluster', 'kubeadm init');
    await this.#type(machine, withKubeProxy ? command.replace(' --skip-phases=addon/kube-proxy', '') : command);
  }

  /** Adds a machine to the cluster: as a worker, or with the key of the certificates as a control-plane node. */
  async join(machine: Machine, { token, hash, key }: JoinSecrets): Promise<void> {
    const localAPIEndpoint = { advertiseAddress: machine.node.managementIp };
    const isControlPlane = key !== undefined;
    const extra: Document = {
      kind: 'JoinConfiguration',
      nodeRegistration: this.#registration(machine),
      ...(isControlPlane && { controlPlane: { localAPIEndpoint } }),
    };
    const headings = ['Join workers', ...(isControlPlane ? [controlPlaneHeading] : [])];
    this.#configure(machine, headings, 'join.yaml', [extra], [], { TOKEN: token, HASH: hash, ...(isControlPlane && { KEY: key }) });
    await this.#type(machine, commandOf(page, headings.at(-1) ?? '', 'kubeadm join'));
  }

  /** Uploads the certificates of the control plane. @returns the key that kubeadm prints */
  async uploadCertificates(machine: Machine): Promise<string> {
    const printed = await this.#type(machine, commandOf(page, controlPlaneHeading, 'kubeadm init phase'));
    const [key] = /^[0-9a-f]{64}$/m.exec(printed) ?? [];
    if (key === undefined) throw new Error(`kubeadm printed ${printed}`);
    return key;
  }

  /** Token and hash, as kubeadm prints them. */
  async joinSecrets(machine: Machine): Promise<JoinSecrets> {
    const printed = await machine.run(['kubeadm', 'token', 'create', '--print-join-command'], {}, this.#signal);
    const [, token, hash] = /--token (\S+) --discovery-token-ca-cert-hash (\S+)/.exec(printed) ?? [];
    if (token === undefined || hash === undefined) throw new Error(`kubeadm printed ${printed}`);
    return { token, hash };
  }

  async reset(machine: Machine): Promise<string> {
    return await this.#type(machine, commandOf(page, 'Remove the cluster', 'kubeadm reset'));
  }

  /** Runs a command of the page in the folder of a machine. */
  async #type(machine: Machine, command: string): Promise<string> {
    print(`${machine.name} $ ${command}`);
    return await machine.run(['sh', '-ec', `cd ${machine.paths.dir}; ${command}`], {}, this.#signal);
  }

  #registration(machine: Machine): object {
    return {
      name: machine.name,
      criSocket: `unix://${runtimeSocket}`,
      kubeletExtraArgs: [{ name: 'cgroup-root', value: `/${cgroupOf(this.#machines.plan.id, machine.name)}` }],
      ignorePreflightErrors: Object.keys(ignoredChecks),
    };
  }

  /** Writes the file that blocks of the page write, with the values of a machine, what the lab adds to its documents, and more documents. */
  #configure(
    machine: Machine,
    headings: readonly string[],
    file: string,
    extra: readonly Document[],
    more: readonly object[],
    words: Readonly<Record<string, string>> = {},
  ): void {
    const text = headings.map((heading) => writtenBelow(heading, file)).join('\n');
    const [ipv4 = '', ipv6 = ''] = ['.', ':'].map((mark) => machine.node.ips.find((ip) => ip.includes(mark)));
    const values = { 'CONTROL-PLANE-ADDRESS': this.#machines.controlPlaneAddress, 'NODE-IPV4': ipv4, 'NODE-IPV6': ipv6, ...words };
    const filled = Object.entries(values).reduce((all, [word, value]) => all.replaceAll(word, value), text);
    const documents = parseAllDocuments(filled).map((document) => document.toJS() as Document);
    const merged = documents.map((document) =>
      extra.filter(({ kind }) => kind === document.kind).reduce((one, other) => merge(one, other) as Document, document),
    );
    writeFileWhole(join(machine.paths.dir, file), [...merged, ...more].map((document) => stringify(document)).join('---\n'));
  }
}

/** Text that the blocks below a heading of the page write or append to a file. @throws Error if there is none */
function writtenBelow(heading: string, file: string): string {
  const blocks = shellBlocks(readFileSync(join(packageRoot, page), 'utf8')).filter((each) => each.heading === heading);
  const writes = new RegExp(`^cat >>? ${file} <<'YAML'\\n([^]*?)\\nYAML$`, 'm');
  const [text] = blocks.flatMap((block) => writes.exec(block.text)?.[1] ?? []);
  if (text === undefined) throw new Error(`${page}, “${heading}” writes no ${file}`);
  return text;
}

/** Adds keys of `other`; lists are joined. */
function merge(one: unknown, other: unknown): unknown {
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other];
  if (!isRecord(one) || !isRecord(other)) return other;
  const added = Object.entries(other).map(([key, value]) => [key, key in one ? merge(one[key], value) : value]);
  return { ...one, ...Object.fromEntries(added) };
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Settings of kubelets that share one host: its disks and its cgroup hierarchy. */
function kubeletDocument(machine: Machine): object {
  return {
    apiVersion: 'kubelet.config.k8s.io/v1beta1',
    kind: 'KubeletConfiguration',
    cgroupDriver: 'cgroupfs',
    failCgroupV1: false,
    enforceNodeAllocatable: [],
    resolvConf: machine.paths.resolvConf,
    evictionHard: { 'memory.available': '50Mi', 'nodefs.available': '0%', 'imagefs.available': '0%', 'nodefs.inodesFree': '0%' },
    imageGCHighThresholdPercent: 100,
    nodeStatusUpdateFrequency: '5s',
  };
}

/** A network namespace does not have the settings of connection tracking that kube-proxy sets for a host. */
const kubeProxyDocument = {
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'nftables',
  conntrack: { maxPerCore: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
};
