import { seineVersion } from '../../api/version.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { print } from '../output.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { isWithoutRelay, relayTo } from './agent-relay.ts';
import { type AgentPod, findAgents } from './agents.ts';
import type { AgentsCommand, AgentsContext, ClusterFlags } from './agents-command.ts';
import { nodesText } from './grouped.ts';
import { usersAccess } from './kubeconfig.ts';
import { agentsOn, nodeOfPod } from './pod-nodes.ts';
import { failureText } from './query-agent.ts';

/** Time limit for the objects of the API server, and of an answer without one of its own (ms). */
const OBJECTS_TIMEOUT_MS = 60_000;
const ANSWER_TIMEOUT_MS = 30_000;
/** Agents queried at a time. */
const PARALLEL = 50;
const CONTAINER = 'agent';
/** HTTP status of an agent that cannot answer yet. */
const STARTING = 503;

/** Output and exit code of the command with one agent. */
interface NodeRun {
  readonly node: string;
  readonly code: number;
  readonly out: readonly string[];
  readonly err: readonly string[];
  /** Reason why there is no answer. */
  readonly failure?: string;
}

/** Runs a command with the agents of the nodes that it concerns, and prints their answers by node. @returns the exit code */
export async function runOnNodes(command: AgentsCommand, flags: ClusterFlags, { terminal, env }: AgentsContext): Promise<number> {
  try {
    const access = usersAccess(flags, env);
    const userAgent = `seinectl/${seineVersion}`;
    const http = new KubeHttp(access, userAgent);
    try {
      const { pods, without, unknown } = await agentsFor(http, command, flags);
      const runs = await runAll(new PodExec(access, userAgent), pods, command, terminal);
      return report([...runs, ...without.map(withoutAgent)], command, { terminal, unknown });
    } finally {
      http.close();
    }
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${cause}`));
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

/** Agents to ask, and nodes of which nothing can be known. */
interface AskedFleet {
  readonly pods: readonly AgentPod[];
  /** Nodes that should have an agent, and have none. */
  readonly without: readonly string[];
  /** Reason why these are not known. */
  readonly unknown?: string | undefined;
}

async function agentsFor(http: KubeHttp, { pods, any }: AgentsCommand, { agentNamespace, node }: ClusterFlags): Promise<AskedFleet> {
  const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
  const fleet = await findAgents(http, agentNamespace, undefined, signal);
  if (fleet.pods.length === 0) throw new SeineError('UNAVAILABLE', `there is no agent's pod in namespace ${agentNamespace}`);
  const some = (asked: readonly AgentPod[]): AskedFleet => ({ pods: asked, without: [] });
  if (node !== undefined) return some(agentsOn(fleet, [node]));
  if (any) return some(fleet.pods.slice(0, 1));
  if (pods === undefined) return { pods: fleet.pods, without: fleet.without ?? [], unknown: fleet.unknown };
  const nodes = new Set<string>();
  for (const pod of pods) nodes.add((await nodeOfPod(http, pod, signal)) ?? '');
  nodes.delete('');
  if (nodes.size > 0) return some(agentsOn(fleet, [...nodes]));
  throw new SeineError('INVALID_INPUT', `neither end is a pod of the cluster: ${pods.join(', ')}`);
}

function withoutAgent(node: string): NodeRun {
  return { node, code: exitCodes.unreachable, out: [], err: [], failure: 'no agent has a pod there' };
}

async function runAll(exec: PodExec, pods: readonly AgentPod[], command: AgentsCommand, terminal: Terminal): Promise<NodeRun[]> {
  const runs: NodeRun[] = [];
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let at = next++; at < pods.length; at = next++) {
      const pod = pods[at];
      if (pod !== undefined) runs[at] = await runOne(exec, pod, command, terminal);
    }
  };
  await Promise.all(Array.from({ length: Math.min(PARALLEL, pods.length) }, worker));
  return runs;
}

async function runOne(exec: PodExec, pod: AgentPod, command: AgentsCommand, { room }: Terminal): Promise<NodeRun> {
  const { node } = pod;
  if (pod.trouble !== undefined) return { node, code: exitCodes.unreachable, out: [], err: [], failure: pod.trouble };
  const [out, err]: [string[], string[]] = [[], []];
  const recorder: Terminal = { room, line: (text) => void out.push(text), remark: (text) => void err.push(text) };
  const relay = relayTo(exec, pod);
  try {
    return { node, code: await command.run(relay.client, recorder, formOnNode(command)), out, err };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query an agent');
    if (error.code === 'INVARIANT') throw error;
    if (isWithoutRelay(error)) return await runThere(exec, pod, command);
    const isAnswer = (error.code === 'REFUSED' || error.code === 'INVALID_INPUT') && error.context['status'] !== STARTING;
    // The agent's refusal is its answer, such as "this node has no such pod"; that of the API server is none.
    if (isAnswer && error.context['path'] === undefined)
      return {
        node,
        code: error.code === 'REFUSED' ? exitCodes.different : exitCodes.usage,
        out,
        err: [...err, safeText(`seinectl: ${error.rawMessage}`)],
      };
    return { node, code: exitCodes.unreachable, out: [], err: [], failure: failureText(error, pod.namespace) };
  } finally {
    relay.close();
  }
}

/** Runs the command in the container of an agent without a relay. */
async function runThere(exec: PodExec, { node, namespace, pod }: AgentPod, command: AgentsCommand): Promise<NodeRun> {
  const form = formOnNode(command);
  const words = ['seinectl', ...command.args, ...(form === 'table' ? [] : (command.jsonArgs ?? ['-o', form]))];
  const limit = within(new AbortController().signal, ANSWER_TIMEOUT_MS + (command.seconds ?? 0) * 1_000);
  try {
    const { stdout, stderr, exitCode } = await exec.run({ namespace, pod, container: CONTAINER, command: words }, limit);
    const [out = [], err = []] = [stdout, stderr].map((text) =>
      text
        .trimEnd()
        .split('\n')
        .filter((line) => line !== ''),
    );
    return { node, code: exitCode, out: out.map(safeLine), err: err.map(safeLine) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'query an agent');
    if (error.code === 'INVARIANT') throw error;
    return { node, code: exitCodes.unreachable, out: [], err: [], failure: failureText(error, namespace) };
  }
}

/** Programs read one document of all nodes: each answer is JSON first. */
function formOnNode({ output }: AgentsCommand): AgentsCommand['output'] {
  return output === 'yaml' ? 'json' : output;
}

interface Reporting {
  readonly terminal: Terminal;
  readonly unknown: AskedFleet['unknown'];
}

function report(runs: readonly NodeRun[], { output }: AgentsCommand, { terminal, unknown }: Reporting): number {
  const [first] = runs;
  const silent = runs.filter(({ failure }) => failure !== undefined);
  const answered = runs.filter(({ failure }) => failure === undefined);
  if (output === 'json' || output === 'yaml')
    print(
      terminal,
      {
        nodes: answered.map(({ node, code, out }) => ({ node, exitCode: code, answer: jsonOf(out) })),
        silent: silent.map(({ node, failure }) => ({ node, why: failure })),
      },
      output,
    );
  else
    for (const { node, out, err } of answered) {
      if (runs.length > 1 && out.length + err.length > 0) terminal.line(terminal.room.paint('strong', `${safeLine(node)}:`));
      for (const line of out) terminal.line(line);
      for (const line of err) terminal.remark(line);
    }
  if (runs.length === 1 && first && first.failure === undefined && output !== 'json' && output !== 'yaml')
    terminal.remark(`answered by the agent of ${safeLine(first.node)}`);
  for (const [why, nodes] of Map.groupBy(silent, ({ failure }) => failure))
    terminal.remark(`seinectl: no answer: ${safeLine(why ?? '')} (${nodesText(nodes.map(({ node }) => node))})`);
  if (unknown !== undefined) terminal.remark(safeText(`seinectl: whether nodes lack an agent is not known: ${unknown}`));
  if (silent.length > 0 && answered.length > 0) terminal.remark(`${count(answered.length, 'node')} of ${runs.length} answered`);
  return silent.length > 0 ? exitCodes.unreachable : Math.max(0, ...answered.map(({ code }) => code));
}

function jsonOf(lines: readonly string[]): unknown {
  try {
    return JSON.parse(lines.join('\n'));
  } catch {
    return null; // the agent refused: the exit code reports it
  }
}
