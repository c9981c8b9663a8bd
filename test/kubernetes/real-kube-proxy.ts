import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, openSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parse, stringify } from 'yaml';
import { inNetns, runIn } from '../../lab/machine/netns.ts';
import { nodePaths } from '../../lab/plan/names.ts';
import type { RealCluster } from './cluster.ts';

/** Mode of kube-proxy: the form of its rules in the kernel. */
export type KubeProxyMode = 'nftables' | 'iptables';

/** Settings that cannot be changed in a network namespace other than the host's. */
const nothingOfTheMachine = ['--conntrack-max-per-core=0', '--conntrack-tcp-timeout-established=0', '--conntrack-tcp-timeout-close-wait=0'];

/** Restarts the agents with `proxy.proxyAll`, or with detection. */
export async function configureAgents(cluster: RealCluster, { proxyAll }: { readonly proxyAll?: boolean }): Promise<void> {
  for (const node of cluster.nodes) {
    const file = nodePaths(cluster.plan.dir, node).agentConfig;
    const config = parse(readFileSync(file, 'utf8')) as { readonly proxy: object };
    writeFileSync(file, stringify({ ...config, proxy: { ...config.proxy, proxyAll } }));
    await cluster.lab('agent', node, 'stop');
    await cluster.lab('agent', node, 'start');
  }
}

/** A real kube-proxy on every node of a cluster, as processes that end with this one. */
export class RealKubeProxy {
  readonly #cluster: RealCluster;
  readonly #program: string;
  #running: readonly ChildProcess[] = [];

  constructor(cluster: RealCluster) {
    this.#cluster = cluster;
    this.#program = join(cluster.plan.kubernetes?.programs ?? '', 'kube-proxy');
  }

  start(mode: KubeProxyMode): void {
    const { plan, folder } = this.#cluster;
    this.#running = plan.nodes.map(({ name, netns }) => {
      const log = openSync(join(folder, `kube-proxy-${mode}-${name}.log`), 'a');
      try {
        const args = [
          `--kubeconfig=${nodePaths(plan.dir, name).kubeconfig}`,
          `--hostname-override=${name}`,
          `--proxy-mode=${mode}`,
          `--cluster-cidr=${plan.podCidrs.join(',')}`,
          ...nothingOfTheMachine,
        ];
        const inside = inNetns(netns, this.#program, args);
        return spawn(inside.command, inside.args, { stdio: ['ignore', log, log] });
      } finally {
        closeSync(log);
      }
    });
  }

  /** Ends it; its rules stay. */
  async stop(): Promise<void> {
    const running = this.#running.filter(({ exitCode, signalCode }) => exitCode === null && signalCode === null);
    this.#running = [];
    await Promise.all(
      running.map(async (child) => {
        const ended = once(child, 'exit');
        child.kill();
        await ended;
      }),
    );
  }

  /** Removes the rules of every mode, with its own program. */
  async cleanUp(): Promise<void> {
    for (const { netns } of this.#cluster.plan.nodes) await runIn(netns, this.#program, ['--cleanup'], {}, this.#cluster.signal);
  }
}
