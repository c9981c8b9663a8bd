import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';
import type { LabStatus, PodStatusLine } from '../daemon/status.ts';
import type { LabPlan, NodePlan } from '../plan/plan.ts';
import { ask, type Outcome, type Probe } from '../probe/probe.ts';
import type { ResponderReply } from '../probe/responder-protocol.ts';
import { demoNamespace, type NodePorts } from './workload.ts';

const probeTimeoutMs = 3_000;
const probesAtOnce = 16;
const settleMs = 5_000;
const settlePollMs = 100;

/** Lab with the pods of the demo. */
export interface DemoLab {
  readonly plan: LabPlan;
  readonly status: LabStatus;
}

/** Objects that the checks use. */
export interface Scene extends DemoLab {
  /** Cluster addresses by Service. */
  readonly services: Readonly<Record<'web' | 'loop' | 'empty' | 'rolling', readonly string[]>>;
  /** Node ports of the Service `web`. */
  readonly nodePorts: NodePorts;
  /** Packets a second on each path over a restart, unless default. */
  readonly pings: number | undefined;
  /** Removes a pod from the Service `rolling`, or restores it. */
  readonly setRolling: (pod: string, is: boolean) => Promise<void>;
  /** Removes the policy that allows clients to reach the guarded pod, or restores it. */
  readonly setClientsMayAsk: (may: boolean) => Promise<void>;
  /** Creates a ClusterNetworkPolicy. */
  readonly putClusterPolicy: (policy: object) => Promise<void>;
  readonly removeClusterPolicy: (name: string) => Promise<void>;
  /** Sets keys of the ConfigMap `seine-live`; null removes one. */
  readonly setLive: (data: Readonly<Record<string, string | null>>) => Promise<void>;
  /** Starts another pod for which no traffic is allowed. */
  readonly addGuarded: (name: string, signal: AbortSignal) => Promise<PodStatusLine>;
  readonly removeGuarded: (name: string, signal: AbortSignal) => Promise<void>;
}

export interface Verdict {
  readonly ok: boolean;
  readonly detail: string;
}

export interface DemoCheck {
  readonly name: string;
  readonly run: (signal: AbortSignal) => Promise<Verdict>;
}

/** A check as it is reported. */
export interface DemoCheckResult extends Verdict {
  readonly name: string;
  readonly ms: number;
}

/** @param number of the node, from 1 */
export function demoPod({ status }: Pick<DemoLab, 'status'>, role: 'web' | 'client' | 'host', number: number): PodStatusLine {
  const name = `${role}-${number}`;
  const pod = status.pods.find((known) => known.namespace === demoNamespace && known.name === name);
  if (pod === undefined) throw new SeineError('UNAVAILABLE', `${demoNamespace}/${name} does not run`);
  return pod;
}

/** Both pods of every node that have their own network. */
export function meshPods(scene: DemoLab): PodStatusLine[] {
  return scene.plan.nodes.flatMap((_, index) => [demoPod(scene, 'web', index + 1), demoPod(scene, 'client', index + 1)]);
}

export function ofFamily(ips: readonly string[], family: Family): string {
  const found = ips.find((ip) => parseIp(ip).family === family);
  if (found === undefined) throw new SeineError('UNAVAILABLE', `no ${family} address among ${ips.join(', ') || 'none'}`);
  return found;
}

export function nodeOfPod({ plan }: DemoLab, pod: PodStatusLine): NodePlan {
  const node = plan.nodes.find(({ name }) => name === pod.node);
  if (node === undefined) throw new SeineError('INVARIANT', `${pod.name} is on ${pod.node}, which is no node`);
  return node;
}

/**
 * Waits for what does not depend on the network: that the change of an object reached the nodes. A failure counts if its attempt began
 * after the deadline: on a slow host the first attempt alone can take longer.
 */
export async function eventually(attempt: () => Promise<Verdict>, withinMs = settleMs): Promise<Verdict> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const isLast = performance.now() > deadline;
    const verdict = await attempt();
    if (verdict.ok || isLast) return verdict;
    await sleep(settlePollMs);
  }
}

/** One probe, and the check of its answer. */
export interface Trial {
  readonly label: string;
  readonly probe: Omit<Probe, 'timeoutMs' | 'protocol' | 'port'> & { readonly port: number | NodePorts };
  /** The error in the answer, if any. */
  readonly wrong?: (answer: ResponderReply) => string | undefined;
}

/** Probes everything over TCP and over UDP. */
export async function tryAll(trials: readonly Trial[]): Promise<Verdict> {
  const all = trials.flatMap((trial) => (['tcp', 'udp'] as const).map((protocol) => ({ trial, protocol })));
  const problems = await inParallel(all, async ({ trial, protocol }) => {
    const { port } = trial.probe;
    const number = typeof port === 'number' ? port : port[protocol];
    const outcome = await ask({ ...trial.probe, port: number, protocol, timeoutMs: probeTimeoutMs });
    const problem = outcome.is === 'OK' ? trial.wrong?.(outcome.answer) : outcomeText(outcome);
    return problem === undefined ? [] : [`${trial.label} ${protocol}: ${problem}`];
  });
  const failed = problems.flat();
  return failed.length === 0
    ? { ok: true, detail: `${all.length} of ${all.length}` }
    : { ok: false, detail: `${all.length - failed.length} of ${all.length}; ${failed.slice(0, 4).join('; ')}` };
}

export function outcomeText(outcome: Outcome): string {
  return outcome.is === 'UNREACHABLE' ? outcome.errno : outcome.is;
}

/**
 * Results in the order of the items; the number at a time is limited, so that a lost packet is the network's fault and not the client's.
 */
export async function inParallel<T, R>(items: readonly T[], act: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = items.entries();
  const work = async () => {
    for (const [index, item] of queue) results[index] = await act(item);
  };
  await Promise.all(Array.from({ length: Math.min(probesAtOnce, items.length) }, work));
  return results;
}

/** The address part of `address:port`. */
export function addressOf(endpoint: string): string {
  return endpoint.replace(/:\d+$/, '').replace(/^\[|\]$/g, '');
}
