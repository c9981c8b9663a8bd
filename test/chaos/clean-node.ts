import type { ChildProcess } from 'node:child_process';
import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { plainKubeconfig } from './api-view.ts';
import type { NodeWires, VirginGround } from './clean-node-check.ts';
import { metrics } from './counters.ts';
import { ended, type Place, run, runIn, startIn, until } from './host.ts';
import { agentFlags, type Lab, type NodePaths, readiness, shippedAgent } from './lab.ts';
import { type Attachment, attachmentsOf, isStanding, nodeEndOf } from './pod-interfaces.ts';

const readyMs = 600_000;
const keyFile = 'wireguard.key';
const portsMs = 300_000;

/** A pod of the fresh node, and of the tested node. */
export interface PodPair {
  readonly containerId: string;
  readonly netns: string;
  readonly triedNetns: string;
  readonly nodeEnd: string;
}

/**
 * The reference: an agent that has never run before, on a new node, with the tested node's name, addresses and pods, and the API of this
 * moment.
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

  /** @throws Error if it does not become ready, or a pod is rejected */
  static async start(lab: Lab, wires: NodeWires, ground: VirginGround): Promise<Virgin> {
    const { netns, rundir } = ground.place;
    const there = (text: string): string => text.replaceAll(lab.tried.rundir, rundir);
    for (const folder of ['run', 'state', 'net.d', 'cni-bin']) mkdirSync(join(rundir, folder), { mode: 0o700, recursive: true });
    // The Node object announces the key of the tested node.
    if (lab.options.paths === 'wireguard') copyFileSync(join(lab.stateDir, keyFile), join(rundir, 'state', keyFile));
    const kubeconfig = join(rundir, 'kubeconfig');
    writeFileSync(kubeconfig, stringify(plainKubeconfig(`http://${wires.apiServer}`)));
    const config = join(rundir, 'agent.yaml');
    writeFileSync(config, configOf(there(readFileSync(join(lab.tried.rundir, 'agent.yaml'), 'utf8'))));
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
    if (lab.options.paths !== undefined) await untilPeerInMode(ground.place, peerMode[lab.options.paths]);
    const add = (attachment: Attachment) => addPod(lab, ground, conf, attachment);
    const [standing, pairs] = apart(attachmentsOf(lab.tried.rundir));
    const pods = await Promise.all(pairs.map(add));
    // A port must be free for each. More are created when half of them are used.
    for (const attachment of standing) {
      await untilPorts(ground.place, ({ free }) => free > 0);
      pods.push(await add(attachment));
    }
    if (standing.length > 0) await untilPorts(ground.place, ({ coming }) => coming === 0);
    return new Virgin(ground, agent, pods);
  }

  async remove(): Promise<void> {
    await ended(this.#agent);
    await this.#ground.remove();
    for (const { netns } of this.pods) await run('ip', ['netns', 'delete', netns]);
  }
}

/** Configuration of a fresh agent, which requests for each pod the kind of interface that the pod has (`asGiven`). */
function configOf(ofTried: string): string {
  return ofTried.replace('podInterface: standing', 'podInterface: auto');
}

/** Attachments above pre-plugged ports, and those with veth pairs. */
function apart(attachments: readonly Attachment[]): readonly [readonly Attachment[], readonly Attachment[]] {
  const stands = (attachment: Attachment): boolean => isStanding(nodeEndOf(attachment));
  return [attachments.filter(stands), attachments.filter((each) => !stands(each))];
}

/** Mode of the other node in the agent's metrics. */
const peerMode: Readonly<Record<NodePaths, string>> = { noEncap: 'direct', wireguard: 'wireguard' };

/** Waits until the agent sends to the other node as the lab is configured: it begins with the tunnel, or with nothing. */
async function untilPeerInMode(place: Place, mode: string): Promise<void> {
  await until(
    async () => (await metrics(place)).includes(`seine_agent_peer_modes{mode="${mode}",family="ipv6"} 1`),
    portsMs,
    () => `the virgin agent does not send to the other node by ${mode}`,
  );
}

type PortCounts = Readonly<Record<'free' | 'coming', number>>;

async function untilPorts(place: Place, holds: (counts: PortCounts) => boolean): Promise<void> {
  let text = '';
  const count = (state: string): number => Number(new RegExp(`standing_ports\\{state="${state}"\\} (\\d+)`).exec(text)?.[1] ?? 0);
  await until(
    async () => {
      text = await metrics(place);
      return holds({ free: count('free'), coming: count('coming') });
    },
    portsMs,
    () => 'the virgin agent makes no standing ports',
  );
}

/** Adds a pod with the plugin, as a runtime does, with the addresses that the tested agent has allocated. */
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
  const answered = await runIn(place.netns, join(lab.dir, 'bin', 'seine'), [], { input: JSON.stringify(input), env });
  const nodeEnd = nodeEndOf({ result: JSON.parse(answered) as Attachment['result'] });
  if (isStanding(nodeEnd) !== isStanding(nodeEndOf(attachment)))
    throw new Error(`the virgin agent gave ${nodeEnd} for ${nodeEndOf(attachment)}`);
  return { containerId, netns, triedNetns: (pod?.sandbox ?? '').replace('/run/netns/', ''), nodeEnd };
}
