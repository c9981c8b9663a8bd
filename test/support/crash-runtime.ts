import { execFile } from 'node:child_process';
import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type PluginChain, parseNetworkConf } from '../../lab/kubelet/cni-conf.ts';
import { CniRuntime, type RuntimeAttachment } from '../../lab/kubelet/cni-runtime.ts';
import { labPaths, netnsPath, nodePaths } from '../../lab/plan/names.ts';
import type { ConvergeLab } from './converge-lab.ts';

const execute = promisify(execFile);
const ifName = 'eth0';
const retries = 3;
const callTimeoutMs = 40_000;

/** A container that is attached in the runtime's view. */
export interface LiveContainer {
  readonly containerId: string;
  readonly netns: string;
  readonly ips: readonly string[];
}

/** The runtime itself aborted the call: it is retried, and is no evidence about the node. */
class PluginKilled extends Error {}

/**
 * Adds and removes containers as a runtime does: a failed ADD is followed by a DEL and retried as another container, a failed DEL is
 * retried. It may lose its plugin on the way, as when the host runs out of memory.
 */
export class CrashRuntime {
  readonly live = new Map<string, LiveContainer>();
  /** Violations, in words. */
  readonly faults: string[] = [];
  /** Number of retries, and of calls that succeeded immediately. */
  readonly counts = { added: 0, removed: 0, lost: 0, checked: 0, addFailed: 0, delFailed: 0, pluginsKilled: 0 };
  readonly #runtime: CniRuntime;
  readonly #cacheFolder: string;
  readonly #network: PluginChain;
  readonly #free: string[];
  readonly #plugins = new Set<AbortController>();
  #lastId = 0;
  readonly #prefix: string;
  /** Maximum number of concurrent containers. */
  readonly size: number;

  private constructor(
    { runtime, cacheFolder }: { readonly runtime: CniRuntime; readonly cacheFolder: string },
    network: PluginChain,
    namespaces: readonly string[],
    prefix: string,
  ) {
    this.#runtime = runtime;
    this.#cacheFolder = cacheFolder;
    this.#network = network;
    this.#free = [...namespaces];
    this.size = namespaces.length;
    this.#prefix = prefix;
  }

  /** @param size maximum number of concurrent containers */
  static async start(lab: ConvergeLab, size: number, signal: AbortSignal): Promise<CrashRuntime> {
    const node = lab.node(1);
    const paths = nodePaths(lab.plan.dir, node.name);
    const names = Array.from({ length: size }, (_, index) => `${node.netns}-k${index}`);
    for (const name of names) await execute('ip', ['netns', 'add', name], { signal });
    const options = { nodeNetns: node.netns, binFolders: [labPaths(lab.plan.dir).bin], cacheFolder: paths.cniCache };
    return new CrashRuntime(
      { runtime: new CniRuntime(options), cacheFolder: paths.cniCache },
      parseNetworkConf(readFileSync(paths.cniConfAlone, 'utf8')),
      names,
      lab.plan.id,
    );
  }

  get hasRoom(): boolean {
    return this.#free.length > 0;
  }

  /** Detaches all containers, and deletes their namespaces. */
  async close(): Promise<void> {
    for (const id of [...this.live.keys()]) await this.remove(id);
    for (const name of this.#free) await execute('ip', ['netns', 'delete', name]);
  }

  /** Kills running plugins. */
  killPlugins(): void {
    this.counts.pluginsKilled += this.#plugins.size;
    for (const plugin of this.#plugins) plugin.abort();
  }

  /** Attaches one more container, with a runtime's number of retries. */
  async add(): Promise<void> {
    const netns = this.#free.shift();
    if (netns === undefined) return;
    for (let failed = 0; failed < retries; ) {
      const attachment = this.#attachment(`${this.#prefix}${(++this.#lastId).toString(16).padStart(8, '0')}`, netns);
      try {
        const { ips = [] } = await this.#call((signal) => this.#runtime.add(this.#network, attachment, signal));
        this.#entered({ ...attachment, netns, ips: ips.map(({ address }) => address.replace(/\/.*/, '')) });
        return;
      } catch (thrown) {
        this.counts.addFailed++;
        if (!(thrown instanceof PluginKilled) && ++failed === retries) this.faults.push(`ADD failed ${retries} times: ${String(thrown)}`);
        await this.#delete(attachment);
      }
    }
    this.#free.push(netns);
  }

  /** Detaches a container. */
  async remove(containerId: string): Promise<void> {
    const container = this.live.get(containerId);
    if (!container) return;
    // The runtime has begun: the container's addresses are no longer its own.
    this.live.delete(containerId);
    await this.#delete(this.#attachment(containerId, container.netns));
    this.counts.removed++;
    this.#free.push(container.netns);
  }

  /** Deletes the namespace of a container, without a DEL. */
  async lose(containerId: string): Promise<void> {
    const container = this.live.get(containerId);
    if (!container) return;
    this.live.delete(containerId);
    this.counts.lost++;
    // The container is not recorded either: a runtime with a record calls DEL before GC.
    for (const name of readdirSync(this.#cacheFolder)) {
      const file = join(this.#cacheFolder, name);
      if (readFileSync(file, 'utf8').includes(containerId)) rmSync(file);
    }
    await execute('ip', ['netns', 'del', container.netns]);
    // The next one with the same name: remains of the lost one must never return to it.
    await execute('ip', ['netns', 'add', container.netns]);
    this.#free.push(container.netns);
  }

  /** Runs GC. No ADD or DEL may be in progress, by the specification. */
  async collectGarbage(): Promise<void> {
    const valid = [...this.live.keys()].map((containerId) => ({ containerId, ifName }));
    try {
      await this.#runtime.gc(this.#network, valid, AbortSignal.timeout(callTimeoutMs));
    } catch (thrown) {
      this.faults.push(`GC: ${String(thrown)}`);
    }
  }

  /** Runs STATUS. @throws the plugin's error */
  async status(): Promise<void> {
    await this.#runtime.status(this.#network, AbortSignal.timeout(callTimeoutMs));
  }

  /** Runs CHECK of every container. */
  async checkAll(): Promise<void> {
    await Promise.all([...this.live.keys()].map((id) => this.check(id)));
  }

  async check(containerId: string): Promise<void> {
    const container = this.live.get(containerId);
    if (!container) return;
    try {
      await this.#runtime.check(this.#network, this.#attachment(containerId, container.netns), AbortSignal.timeout(callTimeoutMs));
      this.counts.checked++;
    } catch (thrown) {
      if (this.live.get(containerId) === container) this.faults.push(`CHECK of ${containerId}: ${String(thrown)}`);
    }
  }

  #entered(container: LiveContainer): void {
    this.counts.added++;
    if (container.ips.length !== 2) this.faults.push(`${container.containerId} got ${container.ips.join(' and ') || 'no address'}`);
    for (const other of this.live.values())
      for (const ip of other.ips)
        if (container.ips.includes(ip)) this.faults.push(`${ip} was given to ${other.containerId} and to ${container.containerId}`);
    this.live.set(container.containerId, container);
  }

  async #delete(attachment: RuntimeAttachment): Promise<void> {
    for (let failed = 0; failed < retries; ) {
      try {
        await this.#call((signal) => this.#runtime.del(this.#network, attachment, signal));
        return;
      } catch (thrown) {
        this.counts.delFailed++;
        if (!(thrown instanceof PluginKilled) && ++failed === retries) this.faults.push(`DEL failed ${retries} times: ${String(thrown)}`);
      }
    }
  }

  async #call<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const plugin = new AbortController();
    this.#plugins.add(plugin);
    try {
      return await work(AbortSignal.any([plugin.signal, AbortSignal.timeout(callTimeoutMs)]));
    } catch (thrown) {
      throw plugin.signal.aborted ? new PluginKilled('the plugin was killed', { cause: thrown }) : thrown;
    } finally {
      this.#plugins.delete(plugin);
    }
  }

  #attachment(containerId: string, netns: string): RuntimeAttachment {
    const args = [
      ['IgnoreUnknown', '1'],
      ['K8S_POD_NAMESPACE', 'crash'],
      ['K8S_POD_NAME', `pod-${containerId}`],
    ] as const;
    return { containerId, netns: netnsPath(netns), ifName, args, capabilities: {} };
  }
}
