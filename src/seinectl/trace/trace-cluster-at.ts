import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp } from '../../base/net/ip.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { safeText } from '../escape.ts';
import { isWithoutRelay, RelayPool } from '../fleet/agent-relay.ts';
import { type AgentPod, findAgents } from '../fleet/agents.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { nodeOfPod } from '../fleet/pod-nodes.ts';
import { agentSource, type RecordedSource } from '../recorded/recorded-source.ts';
import type { Terminal } from '../terminal.ts';
import { traceAt } from './trace-at.ts';
import { type TraceFlags, traceExitCodes } from './trace-report.ts';

/** Time limit for the objects of the API server (ms). */
const OBJECTS_TIMEOUT_MS = 60_000;

/** Traces with the histories of the agents on the path. Pods are found on the nodes where they are now. @returns the exit code */
export async function traceClusterAt(
  question: NodeQuestion,
  flags: TraceFlags & { readonly at: number },
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  try {
    return await traced(question, flags, terminal, env);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl trace --at');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    const older = isWithoutRelay(error) ? ': the agent is older than recorded inputs' : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${older || cause}`));
    return error.code === 'INVALID_INPUT' ? traceExitCodes.usage : traceExitCodes.incomplete;
  }
}

async function traced(
  question: NodeQuestion,
  flags: TraceFlags & { readonly at: number },
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  const access = usersAccess(flags, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const relays = new RelayPool(new PodExec(access, userAgent));
  try {
    const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
    const { pods: agents } = await findAgents(http, flags.namespace, undefined, signal);
    const sourceOf = (node: string): RecordedSource | string => {
      const agent = agents.find((each) => each.node === node);
      if (!agent) return `${node} has no agent in this namespace`;
      return agent.trouble ?? agentSource(relays.of(agent).client);
    };
    const sources = (await nodesOfEnds(http, agents, question, signal)).map((node) => {
      const source = sourceOf(node);
      if (typeof source === 'string') throw new SeineError('UNAVAILABLE', source);
      return source;
    });
    return await traceAt(sources, question, flags, terminal, (node) => Promise.resolve(sourceOf(node)));
  } finally {
    relays.close();
    http.close();
  }
}

/** Nodes of sender and receiver, each once; without any, that of some agent: a packet from outside may enter there. */
async function nodesOfEnds(
  http: KubeHttp,
  agents: readonly AgentPod[],
  { from, to }: NodeQuestion,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const nodes = new Set<string>();
  for (const end of [from, to]) {
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
    const hint = 'a pod that is gone is traced on its node, or with --bundle FILE of it';
    throw new SeineError('INVALID_INPUT', `${error.rawMessage} now; ${hint}`, { cause: error.cause });
  }
}
