import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess } from '../../kubernetes/client/config.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { ClusterNow } from '../../ui/answers/cluster-now.ts';
import type { AgentClient } from '../agent-client.ts';
import { summaryOf } from '../cluster/node-summary.ts';
import { RelayPool } from '../fleet/agent-relay.ts';
import { type AgentPod, type Fleet, findAgents } from '../fleet/agents.ts';
import { type Answers, answersOf } from '../fleet/answers.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { type AgentReply, type AskedQuestion, askAgents } from '../fleet/query-agent.ts';
import { dropsOf, type NodeNow, nowOf } from './now-answer.ts';

/** Relays of a cluster up to this size stay open between refreshes. */
const RELAYS_KEPT_MAX = 100;
const AGENT_TIMEOUT_MS = 5_000;
const PARALLEL = 100;

/** Cluster that the page shows. */
export interface ShownCluster {
  readonly name: string;
  readonly access: KubeAccess;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly agentNamespace: string;
  readonly env: ProcessVariables;
}

/** Connections to the API server and the agents, for as long as the page is served. */
export class ClusterConnection {
  readonly cluster: ShownCluster;
  readonly http: KubeHttp;
  readonly exec: PodExec;
  readonly #relays: RelayPool;
  readonly #packets = new Map<string, bigint>();

  constructor(cluster: ShownCluster) {
    const userAgent = `seinectl/${seineVersion}`;
    this.cluster = cluster;
    this.http = new KubeHttp(cluster.access, userAgent);
    this.exec = new PodExec(cluster.access, userAgent);
    this.#relays = new RelayPool(this.exec);
  }

  async fleet(signal: AbortSignal): Promise<Fleet> {
    const fleet = await findAgents(this.http, this.cluster.agentNamespace, undefined, signal);
    if (fleet.pods.length === 0) throw new SeineError('UNAVAILABLE', `there is no agent's pod in namespace ${this.cluster.agentNamespace}`);
    return fleet;
  }

  async now(signal: AbortSignal): Promise<ClusterNow> {
    const fleet = await this.fleet(signal);
    const question = {
      ask: nodeNow,
      command: ['seinectl', 'status', '-o', 'json'],
      understand: (text: string): NodeNow => ({ summary: summaryOf(text) }),
      timeoutMs: AGENT_TIMEOUT_MS,
    };
    const answers = answersOf(fleet, await this.ask(fleet, fleet.pods, question, signal));
    this.assertExecAllowed(answers);
    return nowOf(this.cluster.name, answers, this.#packets);
  }

  /** Asks agents, over relays that stay open if the cluster is small. @throws SeineError `CANCELLED` if the signal is aborted */
  async ask<T>(
    fleet: Fleet,
    pods: readonly AgentPod[],
    question: Omit<AskedQuestion<T>, 'parallel' | 'progress' | 'relays'>,
    signal: AbortSignal,
  ): Promise<AgentReply<T>[]> {
    const isKept = fleet.pods.length <= RELAYS_KEPT_MAX;
    this.#relays.keepOnly(isKept ? fleet.pods : []);
    const ways = { parallel: PARALLEL, progress: () => undefined, ...(isKept && { relays: this.#relays }) };
    return await askAgents(this.exec, pods, { ...question, ...ways }, signal);
  }

  /** @throws SeineError `REFUSED` that names the right, if exec is forbidden: it is then missing for each agent */
  assertExecAllowed({ rows, failures: [first] }: Answers<unknown>): void {
    if (rows.length === 0 && first?.failure.includes('pods/exec')) throw new SeineError('REFUSED', first.failure);
  }

  /** Agent of a node. @throws SeineError `INVALID_INPUT` if there is none */
  async agentOf(node: string, signal: AbortSignal): Promise<AgentClient> {
    const pod = (await this.fleet(signal)).pods.find((each) => each.node === node);
    if (!pod) throw new SeineError('INVALID_INPUT', `node ${node} has no agent in namespace ${this.cluster.agentNamespace}`);
    if (pod.trouble !== undefined) throw new SeineError('UNAVAILABLE', `the agent of ${node} does not answer: ${pod.trouble}`);
    return this.#relays.of(pod).client;
  }

  close(): void {
    this.#relays.close();
    this.http.close();
  }
}

async function nodeNow(agent: AgentClient, signal: AbortSignal): Promise<NodeNow> {
  const summary = summaryOf(await agent.text('/v1/status', 'GET', signal));
  try {
    return { summary, drops: dropsOf(await agent.json('/v1/drops', 'GET', signal)) };
  } catch {
    return { summary }; // its release has no drops, or their form is not that of this release: the rest is shown
  }
}
