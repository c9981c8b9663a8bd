import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp } from '../../base/net/ip.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { isWithoutRelay, RelayPool } from '../fleet/agent-relay.ts';
import { type AgentPod, findAgents } from '../fleet/agents.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { nodeOfPod } from '../fleet/pod-nodes.ts';
import { failureText } from '../fleet/query-agent.ts';
import { agentSource, type RecordedSource } from './recorded-source.ts';

/** Time limit for the objects of the API server (ms). */
const OBJECTS_TIMEOUT_MS = 60_000;

interface ClusterChoice {
  readonly kubeconfig?: string;
  readonly context?: string;
  /** Namespace of the agents. */
  readonly namespace: string;
}

/** Histories that agents of a cluster serve. */
interface ClusterSources {
  /** Those of the nodes where the ends are now; without any node, that of some agent: a packet from outside may enter there. */
  readonly ofEnds: readonly RecordedSource[];
  /** Returns the history of a node; a text is the reason why there is none. */
  readonly of: (node: string) => RecordedSource | string;
}

/**
 * Runs a command with the histories of the agents of a cluster.
 *
 * @param ends `namespace/name` of a pod, `node:NAME` or an address; others are on no node
 * @throws SeineError `INVALID_INPUT` that names a pod that is not there now, `UNAVAILABLE` without an agent
 */
export async function withClusterSources<T>(
  ends: readonly string[],
  flags: ClusterChoice,
  env: ProcessVariables,
  use: (sources: ClusterSources) => Promise<T>,
): Promise<T> {
  const access = usersAccess(flags, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const relays = new RelayPool(new PodExec(access, userAgent));
  try {
    const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
    const { pods: agents } = await findAgents(http, flags.namespace, undefined, signal);
    const of = (node: string): RecordedSource | string => {
      const agent = agents.find((each) => each.node === node);
      if (!agent) return `${node} has no agent in this namespace`;
      return agent.trouble ?? agentSource(relays.of(agent).client);
    };
    const ofEnds = (await nodesOfEnds(http, agents, ends, signal)).map((node) => {
      const source = of(node);
      if (typeof source === 'string') throw new SeineError('UNAVAILABLE', source);
      return source;
    });
    return await use({ ofEnds, of });
  } finally {
    relays.close();
    http.close();
  }
}

/**
 * Returns why there are no histories of the cluster, not escaped yet, and whether the command line is the reason.
 *
 * @throws SeineError `INVARIANT` for a fault of this program
 */
export function sourcesFailure(thrown: unknown, namespace: string): { readonly text: string; readonly isInvalid: boolean } {
  const error = SeineError.from(thrown, 'seinectl');
  if (error.code === 'INVARIANT') throw error;
  const isInvalid = error.code === 'INVALID_INPUT';
  const cause = error.cause instanceof Error && isInvalid ? `: ${error.cause.message}` : '';
  const older = isWithoutRelay(error) ? ': the agent is older than recorded inputs' : '';
  return { text: `${failureText(error, namespace)}${older || cause}`, isInvalid };
}

/** Nodes of sender and receiver, each once; without any, that of some agent: a packet from outside may enter there. */
async function nodesOfEnds(
  http: KubeHttp,
  agents: readonly AgentPod[],
  ends: readonly string[],
  signal: AbortSignal,
): Promise<readonly string[]> {
  const nodes = new Set<string>();
  for (const end of ends) {
    const node = await nodeOfEnd(http, end, signal);
    if (node !== undefined) nodes.add(node);
  }
  const [any] = agents;
  if (nodes.size > 0) return [...nodes];
  if (!any) throw new SeineError('UNAVAILABLE', 'there is no agent in this namespace');
  return [any.node];
}

async function nodeOfEnd(http: KubeHttp, end: string, signal: AbortSignal): Promise<string | undefined> {
  const [, node] = /^node:(.+)$/.exec(end) ?? [];
  if (node !== undefined) return node;
  if (!isIp(end) && !/^[^:/]+\/[^:/]+$/.test(end)) return undefined;
  try {
    return await nodeOfPod(http, end, signal);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'find a pod');
    if (error.code !== 'INVALID_INPUT') throw thrown;
    const hint = 'for a pod that is gone, run this on its node, or with --bundle FILE of it';
    throw new SeineError('INVALID_INPUT', `${error.rawMessage} now; ${hint}`, { cause: error.cause });
  }
}
