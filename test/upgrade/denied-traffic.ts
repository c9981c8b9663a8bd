import { setTimeout as sleep } from 'node:timers/promises';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { clusterPoliciesPath } from '../../lab/kube/cluster-policies.ts';
import { bindUdpIn, connectTcpIn } from '../../lab/probe/sockets.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { type ConvergeLab, until } from '../support/converge-lab.ts';

/** Time in which a connection would be established if it were allowed (ms). */
const connectWithinMs = 1_000;
const everyMs = 50;
const patienceMs = 30_000;

/** Label of the pod that the cluster policy denies. */
export const deniedLabels = { app: 'denied' };

/** Policy by which pods with these labels do not reach the web pods; NetworkPolicies cannot say that of all namespaces. */
export async function denyByClusterPolicy({ api }: ConvergeLab): Promise<void> {
  const namespace = { matchLabels: { 'kubernetes.io/metadata.name': 'demo' } };
  const pods = (labels: object) => ({ pods: { namespaceSelector: namespace, podSelector: { matchLabels: labels } } });
  const ingress = [{ name: 'denied', action: 'Deny', from: [pods(deniedLabels)] }];
  const spec = { tier: 'Admin', priority: 10, subject: pods({ app: 'web' }), ingress };
  const policy = { apiVersion: 'policy.networking.k8s.io/v1beta1', kind: 'ClusterNetworkPolicy', metadata: { name: 'upgrade' }, spec };
  await api.send({ method: 'POST', path: clusterPoliciesPath, body: policy }, AbortSignal.timeout(patienceMs));
}

interface DeniedCount {
  readonly sent: number;
  /** Datagrams that were answered and connections that were established. */
  readonly answered: number;
}

/** Datagrams of new sockets and TCP connections to servers of `Traffic` that a policy denies. */
export class DeniedTraffic {
  readonly #stop = new AbortController();
  readonly #probing: Promise<DeniedCount>;

  constructor(from: Pick<PodStatusLine, 'netns'>, addresses: readonly string[], port: number) {
    this.#probing = probe(from, addresses, port, this.#stop.signal);
  }

  async stop(): Promise<DeniedCount> {
    this.#stop.abort();
    return await this.#probing;
  }
}

/** Waits until nothing is answered any more: agents learn of a new policy within a second or so. */
export async function untilDenied(from: Pick<PodStatusLine, 'netns'>, addresses: readonly string[], port: number): Promise<void> {
  const isDenied = async () => {
    const traffic = new DeniedTraffic(from, addresses, port);
    await sleep(10 * everyMs);
    const { sent, answered } = await traffic.stop();
    return sent > 0 && answered === 0;
  };
  await until(isDenied, patienceMs, () => 'the cluster policy denies nothing');
}

async function probe(
  { netns }: Pick<PodStatusLine, 'netns'>,
  addresses: readonly string[],
  port: number,
  signal: AbortSignal,
): Promise<DeniedCount> {
  const counts = { sent: 0, answered: 0 };
  const running = new Set<Promise<void>>();
  while (!signal.aborted) {
    for (const address of addresses)
      for (const attempt of [askByUdp, askByTcp]) {
        counts.sent++;
        const asking: Promise<void> = attempt(netns, address, port)
          .then((isAnswered) => void (isAnswered && counts.answered++))
          .finally(() => running.delete(asking));
        running.add(asking);
      }
    await sleep(everyMs);
  }
  await Promise.all(running);
  return counts;
}

async function askByUdp(netns: PodStatusLine['netns'], address: string, port: number): Promise<boolean> {
  const socket = await bindUdpIn(netns, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
  try {
    return await new Promise<boolean>((resolve) => {
      const timer = setTimeout(resolve, connectWithinMs, false);
      socket.once('message', () => {
        clearTimeout(timer);
        resolve(true);
      });
      socket.on('error', () => {}); // a rejection is no answer of the server
      socket.send('denied', port, address, () => {});
    });
  } finally {
    socket.close();
  }
}

async function askByTcp(netns: PodStatusLine['netns'], address: string, port: number): Promise<boolean> {
  try {
    const socket = await connectTcpIn(netns, address, port, AbortSignal.timeout(connectWithinMs));
    socket.on('error', () => {});
    socket.resetAndDestroy();
    return true;
  } catch {
    return false;
  }
}
