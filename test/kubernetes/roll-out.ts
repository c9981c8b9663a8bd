import { expect } from 'vitest';
import { until } from '../support/converge-lab.ts';
import { print, type RealCluster } from './cluster.ts';

const system = ['-n', 'seine-system'] as const;
const agents = 'daemonset/seine-agent';
const patienceMs = 300_000;

/** A pod of a DaemonSet of agents, of any pool. */
interface AgentPod {
  readonly name: string;
  readonly node: string;
  readonly ready: boolean;
  /** Its ConfigMap. */
  readonly config: string;
  readonly image: string;
  /** The kubelet's reason why its container waits; empty if it does not. */
  readonly waits: string;
}

const line = [
  '.metadata.name',
  '.spec.nodeName',
  '.status.conditions[?(@.type=="Ready")].status',
  '.spec.volumes[?(@.name=="config")].configMap.name',
  '.spec.containers[0].image',
  '.status.initContainerStatuses[0].state.waiting.reason',
].map((path) => `{${path}}`);

export async function agentPods(cluster: RealCluster): Promise<readonly AgentPod[]> {
  const path = `jsonpath={range .items[*]}${line.join('|')}{"\\n"}{end}`;
  const text = await cluster.kubectl(...system, 'get', 'pods', '-l', 'app.kubernetes.io/name=seine-agent', '-o', path);
  return text
    .split('\n')
    .filter((each) => each !== '')
    .map((each) => {
      const [name = '', node = '', ready, config = '', image = '', waits = ''] = each.split('|');
      return { name, node, ready: ready === 'True', config, image, waits };
    });
}

/** Waits until every node has one agent, ready, and of one configuration and image. */
export async function untilUniform(cluster: RealCluster): Promise<readonly AgentPod[]> {
  let found: readonly AgentPod[] = [];
  const uniform = async () => {
    found = await agentPods(cluster);
    const kinds = new Set(found.map(({ config, image }) => `${config} ${image}`));
    return found.length === cluster.nodes.length && kinds.size === 1 && found.every(({ ready }) => ready);
  };
  await until(uniform, patienceMs, () => `agents are not alike: ${JSON.stringify(found)}`);
  return found;
}

export async function undo(cluster: RealCluster): Promise<void> {
  await cluster.type('kubectl rollout undo daemonset/seine-agent -n seine-system');
}

/** Rolls out something broken: waits until one pod is as `broken` says, and checks that the others were not replaced. */
export async function stopsAtOneNode(cluster: RealCluster, broken: (pod: AgentPod) => boolean): Promise<AgentPod> {
  const before = new Set((await agentPods(cluster)).map(({ name }) => name));
  let found: readonly AgentPod[] = [];
  const stuck = async () => {
    found = await agentPods(cluster);
    // The pod that is replaced stays in the list until it has ended.
    return found.length === cluster.nodes.length && found.some((pod) => broken(pod));
  };
  await until(stuck, patienceMs, () => `no pod is broken: ${JSON.stringify(found)}`);
  const others = found.filter((pod) => !broken(pod));
  expect(others.map(({ ready }) => ready)).toEqual(cluster.nodes.slice(1).map(() => true));
  const [one] = found.filter((pod) => broken(pod));
  if (one === undefined) throw new Error('it is whole again');
  print(`stopped at ${one.node}: ${one.waits || 'not ready'}; ${before.size - 1} others are ready`);
  const { unavailable, updated } = await progress(cluster);
  expect([unavailable, updated]).toEqual([1, 1]);
  return one;
}

/**
 * Rolls out something that runs and must not spread: waits until the only pod that is not ready reports the reason, by its probe.
 *
 * @param reason words of it
 */
export async function stopsBecause(cluster: RealCluster, reason: string): Promise<void> {
  let output = 'all pods are ready';
  const stuck = async () => {
    const [one, ...more] = (await agentPods(cluster)).filter(({ ready }) => !ready);
    if (one !== undefined) output = await cluster.kubectlAnyway(...system, 'describe', 'pod', one.name);
    return more.length === 0 && output.includes(reason);
  };
  await until(stuck, patienceMs, () => output.slice(-4_000));
  const { unavailable, updated } = await progress(cluster);
  expect([unavailable, updated]).toEqual([1, 1]);
  print(
    `stopped at one node: ${output
      .split('\n')
      .find((line) => line.includes(reason))
      ?.trim()
      .slice(-300)}`,
  );
}

async function progress(cluster: RealCluster): Promise<{ readonly unavailable: number; readonly updated: number }> {
  const path = 'jsonpath={.status.numberUnavailable} {.status.updatedNumberScheduled}';
  const [unavailable, updated] = (await cluster.kubectl(...system, 'get', agents, '-o', path)).split(' ').map(Number);
  return { unavailable: unavailable ?? 0, updated: updated ?? 0 };
}
