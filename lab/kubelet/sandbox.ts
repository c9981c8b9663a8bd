import { randomBytes } from 'node:crypto';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import { z } from 'zod';
import { readIfThere, removeFile, writeFileWhole } from '../machine/files.ts';
import { createNetns, deleteNetns, netnsExists } from '../machine/netns.ts';
import { netnsPath, type PodName, podNetns } from '../plan/names.ts';
import type { PluginChain } from './cni-conf.ts';
import type { CniRuntime, PluginResult, RuntimeAttachment } from './cni-runtime.ts';
import type { PodSpec } from './pod-spec.ts';

const ifName = 'eth0';

const record = z.object({
  uid: z.string(),
  namespace: z.string(),
  name: z.string(),
  containerId: z.string(),
  /** Name below /run/netns. */
  netns: z.string(),
  /** Empty until ADD has answered. */
  ips: z.array(z.string()),
});

/** A pod's namespace and its network, as kept on disk: recorded sandboxes are undone, also after a restart. */
export type Sandbox = z.infer<typeof record>;

interface SandboxOptions {
  readonly labId: string;
  readonly node: string;
  readonly folder: string;
  readonly runtime: CniRuntime;
  readonly network: PluginChain;
}

/** Creates and removes the sandboxes of one node, as a container runtime does. */
export class Sandboxes {
  readonly #options: SandboxOptions;

  constructor(options: SandboxOptions) {
    this.#options = options;
  }

  /** Sandboxes of an earlier run. */
  recorded(): Sandbox[] {
    try {
      return readdirSync(this.#options.folder)
        .filter((file) => file.endsWith('.json'))
        .flatMap((file) => record.safeParse(JSON.parse(readIfThere(join(this.#options.folder, file)) ?? 'null')).data ?? []);
    } catch {
      // No pod yet, so no folder.
      return [];
    }
  }

  /**
   * Creates a namespace and its network.
   *
   * @throws SeineError `REFUSED` if a plugin fails; the sandbox is removed again
   */
  async create(pod: PodSpec, signal: AbortSignal): Promise<Sandbox> {
    const { uid, namespace, name } = pod;
    const netns = this.#freeName({ node: this.#options.node, namespace, name });
    const sandbox: Sandbox = { uid, namespace, name, containerId: randomBytes(32).toString('hex'), netns, ips: [] };
    this.#record(sandbox);
    try {
      await createNetns(netns, signal);
      const result = await this.#options.runtime.add(this.#options.network, this.#attachment(sandbox, pod), signal);
      const ready = { ...sandbox, ips: addressesOf(result) };
      this.#record(ready);
      return ready;
    } catch (error) {
      await this.remove(sandbox, signal);
      throw error;
    }
  }

  /** Runs CHECK for the network. @throws SeineError `REFUSED` naming the difference */
  async check(sandbox: Sandbox, pod: PodSpec, signal: AbortSignal): Promise<void> {
    await this.#options.runtime.check(this.#options.network, this.#attachment(sandbox, pod), signal);
  }

  /** @throws SeineError `REFUSED` if a plugin fails; the caller retries */
  async remove(sandbox: Sandbox, signal: AbortSignal): Promise<void> {
    await this.#options.runtime.del(this.#options.network, this.#attachment(sandbox), signal);
    await deleteNetns(sandbox.netns, signal);
    removeFile(this.#file(sandbox.uid));
  }

  /** Runs GC: plugins remove what belongs to none of the recorded sandboxes. */
  async collectGarbage(signal: AbortSignal): Promise<void> {
    const valid = this.recorded().map(({ containerId }) => ({ containerId, ifName }));
    await this.#options.runtime.gc(this.#options.network, valid, signal);
  }

  #attachment(sandbox: Sandbox, pod?: PodSpec): RuntimeAttachment {
    const { containerId, namespace, name, uid, netns } = sandbox;
    return {
      containerId,
      netns: netnsExists(netns) ? netnsPath(netns) : '',
      ifName,
      args: [
        ['IgnoreUnknown', '1'],
        ['K8S_POD_NAMESPACE', namespace],
        ['K8S_POD_NAME', name],
        ['K8S_POD_INFRA_CONTAINER_ID', containerId],
        ['K8S_POD_UID', uid],
      ],
      capabilities: pod === undefined ? {} : capabilitiesOf(pod),
    };
  }

  #freeName(pod: PodName): string {
    const plain = podNetns(this.#options.labId, pod);
    return netnsExists(plain) ? podNetns(this.#options.labId, pod, 'distinct') : plain;
  }

  #record(sandbox: Sandbox): void {
    writeFileWhole(this.#file(sandbox.uid), JSON.stringify(sandbox));
  }

  #file(uid: string): string {
    return join(this.#options.folder, `${uid.replaceAll(/[^A-Za-z0-9-]/g, '_')}.json`);
  }
}

function addressesOf({ ips = [] }: PluginResult): string[] {
  return ips.map(({ address }) => address.replace(/\/.*$/, ''));
}

/** Capabilities that a runtime passes to plugins that declare them. Source: CNI conventions, "capabilities". */
export function capabilitiesOf({ containers, annotations }: PodSpec): Record<string, unknown> {
  const portMappings = containers
    .flatMap(({ ports }) => ports)
    .flatMap(({ hostPort, containerPort, protocol, hostIP = '' }) =>
      hostPort === undefined ? [] : [{ hostPort, containerPort, protocol: protocol.toLowerCase(), hostIP }],
    );
  const bandwidth = {
    ...limit('ingress', bitsPerSecond(annotations['kubernetes.io/ingress-bandwidth'])),
    ...limit('egress', bitsPerSecond(annotations['kubernetes.io/egress-bandwidth'])),
  };
  return { ...(portMappings.length > 0 && { portMappings }), bandwidth };
}

/** Zero means none. It is set, and not omitted, because the bandwidth plugin of Debian 12 (1.1.1) crashes on CHECK without it. */
function limit(direction: 'ingress' | 'egress', rate: number | undefined): Record<string, number> {
  return { [`${direction}Rate`]: rate ?? 0, [`${direction}Burst`]: rate === undefined ? 0 : burstBits };
}

/** Burst that kubelets pass: practically unlimited, 2^31 - 1 bits. */
const burstBits = 2_147_483_647;
const scale: Readonly<Record<string, number>> = { '': 1, k: 1e3, M: 1e6, G: 1e9, Ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30 };

function bitsPerSecond(quantity: string | undefined): number | undefined {
  const [, number, suffix = ''] = /^(\d+(?:\.\d+)?)(k|M|G|Ki|Mi|Gi)?$/.exec(quantity ?? '') ?? [];
  return number === undefined ? undefined : Math.round(Number(number) * (scale[suffix] ?? 1));
}
