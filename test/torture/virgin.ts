import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { plainKubeconfig } from './api-view.ts';
import { type Lab, readiness, root, shippedAgent } from './lab.ts';
import { type Place, run, runIn, startIn, until } from './machine.ts';
import type { NodeWires, VirginGround } from './virgin-ground.ts';

const readyMs = 600_000;

/** What the runtime remembers of an ADD. */
interface Attachment {
  readonly containerId: string;
  readonly ifName: string;
  readonly network: string;
  readonly args: readonly (readonly [string, string])[];
  readonly capabilities: Readonly<Record<string, unknown>>;
  readonly result: {
    readonly cniVersion: string;
    readonly ips: readonly { readonly address: string }[];
    readonly interfaces: readonly { readonly mac?: string; readonly sandbox?: string }[];
  };
}

/** A pod of the virgin, and of the tried node. */
export interface PodPair {
  readonly containerId: string;
  readonly netns: string;
  readonly triedNetns: string;
}

/**
 * What ought to be: an agent that has never run before, on a node that has seen nothing, with the tried node's name, addresses
 * and pods, and the API of this moment.
 */
export class Virgin {
  readonly place: Place;
  readonly pods: readonly PodPair[];
  readonly #ground: VirginGround;
  readonly #agent: ChildProcess;

  private constructor(ground: VirginGround, agent: ChildProcess, pods: readonly PodPair[]) {
    this.place = ground.place;
    this.pods = pods;
    this.#ground = ground;
    this.#agent = agent;
  }

  /** @throws Error if it does not become ready, or a pod is refused */
  static async start(lab: Lab, wires: NodeWires, ground: VirginGround): Promise<Virgin> {
    const { netns, rundir } = ground.place;
    const there = (text: string): string => text.replaceAll(lab.tried.rundir, rundir);
    for (const folder of ['run', 'state', 'net.d', 'cni-bin']) mkdirSync(join(rundir, folder), { mode: 0o700 });
    const kubeconfig = join(rundir, 'kubeconfig');
    writeFileSync(kubeconfig, stringify(plainKubeconfig(`http://${wires.apiServer}`)));
    const config = join(rundir, 'agent.yaml');
    writeFileSync(config, there(readFileSync(join(lab.tried.rundir, 'agent.yaml'), 'utf8')));
    const conf = there(readFileSync(lab.tried.cniConf, 'utf8'));
    writeFileSync(join(rundir, 'net.d', '10-seine.conflist'), conf);
    const agent = startIn(netns, process.execPath, [...agentFlags(), shippedAgent, '--config', config], ground.log, ground.mark);
    let says = '';
    await until(
      async () => {
        const answer = await readiness(join(rundir, 'run', 'agent.sock'));
        says = answer.says;
        if (agent.exitCode !== null)
          throw new Error(`the virgin agent ended: ${readFileSync(join(rundir, 'driver.log'), 'utf8').slice(-2_000)}`);
        return answer.ready;
      },
      readyMs,
      () => `the virgin agent is not ready: ${says}`,
    );
    const pods = await Promise.all(attachmentsOf(lab).map((attachment) => addPod(lab, ground, conf, attachment)));
    return new Virgin(ground, agent, pods);
  }

  async remove(): Promise<void> {
    if (this.#agent.exitCode === null && this.#agent.signalCode === null) {
      this.#agent.kill('SIGKILL');
      await once(this.#agent, 'exit');
    }
    await this.#ground.remove();
    for (const { netns } of this.pods) await run('ip', ['netns', 'delete', netns]);
  }
}

function agentFlags(): readonly string[] {
  const { config } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { config: Record<string, string> };
  return (config['agent-node-flags'] ?? '').split(' ');
}

/** Of the pods of the tried node, as its runtime remembers them. */
function attachmentsOf(lab: Lab): readonly Attachment[] {
  const folder = join(lab.tried.rundir, 'cni-cache');
  const files = readdirSync(folder).filter((file) => file.endsWith('.json'));
  return files.map((file) => JSON.parse(readFileSync(join(folder, file), 'utf8')) as Attachment);
}

/** By the plugin, as a runtime does it, with the addresses that the tried agent has given. */
async function addPod(lab: Lab, { place, mark }: VirginGround, conf: string, attachment: Attachment): Promise<PodPair> {
  const { containerId, ifName, args, capabilities, result } = attachment;
  const pod = result.interfaces.find(({ sandbox }) => sandbox !== undefined);
  const netns = `${place.netns}-${containerId.slice(0, 12)}`;
  await run('ip', ['netns', 'add', netns]);
  const list = JSON.parse(conf) as { name: string; plugins: object[] };
  const input = { ...list.plugins[0], name: list.name, cniVersion: result.cniVersion, runtimeConfig: capabilities };
  const asked = [...args, ['IP', result.ips.map(({ address }) => address.replace(/\/.*/, '')).join(',')], ['MAC', pod?.mac ?? '']];
  const env = {
    ...mark,
    CNI_COMMAND: 'ADD',
    CNI_CONTAINERID: containerId,
    CNI_NETNS: `/run/netns/${netns}`,
    CNI_IFNAME: ifName,
    CNI_PATH: join(lab.dir, 'bin'),
    CNI_ARGS: asked.map(([key, value]) => `${key}=${value}`).join(';'),
  };
  await runIn(place.netns, join(lab.dir, 'bin', 'seine'), [], { input: JSON.stringify(input), env });
  return { containerId, netns, triedNetns: (pod?.sandbox ?? '').replace('/run/netns/', '') };
}
