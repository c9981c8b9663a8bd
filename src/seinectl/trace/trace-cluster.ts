import type { NodeAttempts, NodeProbes, NodeTrace, SeenProbe } from '../../api/trace.ts';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { isIp, parseIp } from '../../base/net/ip.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { entryNode } from '../../operations/path/entry-node.ts';
import { meaningFor } from '../../operations/path/path-meaning.ts';
import { followTrace, type NodeQuestion, type TraceAnswer, withEntry } from '../../operations/path/whole-trace.ts';
import type { ForwardedObjects } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import { safeText } from '../escape.ts';
import { type AgentPod, findAgents } from '../fleet/agents.ts';
import { readClusterObjects } from '../fleet/cluster-objects.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { askAgents, type RelayRequest } from '../fleet/query-agent.ts';
import type { Terminal } from '../terminal.ts';
import { type ProbeAgents, withConnections, withProbes } from './probe-path.ts';
import { exitCodeOf, report, type TraceFlags, traceExitCodes, unlessPassing } from './trace-report.ts';

/** Time limit of one agent (ms). */
const AGENT_TIMEOUT_MS = 30_000;
/** Time limit for all objects (ms). */
const OBJECTS_TIMEOUT_MS = 120_000;

/** Traces with the agents of all nodes on the path, and compares with the objects in the API server. @returns the exit code */
export async function traceCluster(question: NodeQuestion, flags: TraceFlags, terminal: Terminal, env: ProcessVariables): Promise<number> {
  try {
    return await traced(question, flags, terminal, env);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl trace');
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${cause}${rightsHint(error)}`));
    return error.code === 'INVALID_INPUT' ? traceExitCodes.usage : traceExitCodes.incomplete;
  }
}

function rightsHint({ code }: SeineError): string {
  return code === 'REFUSED'
    ? '; the command needs the rights to list pods, nodes, namespaces, services, endpointslices and policies, and to create and get pods/exec in the namespace of the agents'
    : '';
}

async function traced(question: NodeQuestion, flags: TraceFlags, terminal: Terminal, env: ProcessVariables): Promise<number> {
  const access = usersAccess(flags, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  const signal = AbortSignal.timeout(OBJECTS_TIMEOUT_MS);
  try {
    const { pods } = await findAgents(http, flags.namespace, undefined, signal);
    const exec = new PodExec(access, userAgent);
    const silent = new Map<string, TraceAnswer>();
    const ask = async (node: string, asked: NodeQuestion): Promise<TraceAnswer> => {
      const answer = silent.get(node) ?? (await askNode(exec, pods, node, asked, signal));
      if ('failure' in answer && !isInvalid(answer.failure)) silent.set(node, answer); // its time limit counts once, not for each family
      return answer;
    };
    const read = async () => {
      const objects = await readClusterObjects(http, signal);
      const asked = { ...question, from: nodeOfHostPod(objects, question.from), to: nodeOfHostPod(objects, question.to) };
      const entry = flags.via === undefined ? entryNode(objects, asked) : { node: flags.via };
      const node = entry?.node ?? firstNode(objects, pods, asked);
      const first = await ask(node, asked);
      if ('failure' in first) throw unanswered(node, first.failure);
      const followed = withEntry(await followTrace(first.answer, ask), entry);
      const agents = probesOf(exec, pods, signal);
      const probed = flags.probe ? await withProbes(followed, asked, agents) : followed;
      const traces = flags.connect ? await withConnections(probed, asked, agents) : probed;
      return { traces, meanings: traces.map((trace) => trace.paths.map((path) => meaningFor(objects, trace, path))) };
    };
    const { traces, meanings } = await unlessPassing(read, (each) => exitCodeOf(each.traces, each.meanings));
    return report(traces, meanings, flags.output, terminal);
  } finally {
    http.close();
  }
}

/** An invalid question and an agent that does not answer have different exit codes. */
function unanswered(node: string, reason: string): SeineError {
  return isInvalid(reason) ? new SeineError('INVALID_INPUT', reason) : new SeineError('UNAVAILABLE', `${node} does not answer: ${reason}`);
}

/** Reports whether an agent refused the question, and not the API server or the way to it. */
function isInvalid(reason: string): boolean {
  return /^(?:from|to|port|family|source-port): /.test(reason);
}

/** Returns the node in place of a pod in the host's network, whose packets are those of its node. */
function nodeOfHostPod({ pods }: ForwardedObjects, end: string): string {
  const pod = pods.find(({ metadata, spec }) => spec.hostNetwork === true && `${metadata.namespace}/${metadata.name}` === end);
  return pod?.spec.nodeName === undefined ? end : `node:${pod.spec.nodeName}`;
}

/** Node that the packet enters first. A packet from outside enters at the node of its receiver, or at any. */
function firstNode(objects: ForwardedObjects, agents: readonly AgentPod[], { from, to }: NodeQuestion): string {
  const node = nodeNamed(objects, from) ?? nodeNamed(objects, to) ?? agents[0]?.node;
  if (node === undefined) throw new SeineError('UNAVAILABLE', 'there is no agent in this namespace');
  return node;
}

function nodeNamed({ pods }: ForwardedObjects, name: string): string | undefined {
  const [, node] = /^node:(.+)$/.exec(name) ?? [];
  if (node !== undefined) return node;
  const ip = isIp(name) ? parseIp(name).text : undefined;
  const pod = pods.find(({ metadata, status }) =>
    ip === undefined
      ? `${metadata.namespace}/${metadata.name}` === name
      : (status.podIPs ?? []).some((each) => isIp(each.ip) && parseIp(each.ip).text === ip),
  );
  return pod?.spec.nodeName;
}

async function askNode(
  exec: PodExec,
  agents: readonly AgentPod[],
  node: string,
  question: NodeQuestion,
  signal: AbortSignal,
): Promise<TraceAnswer> {
  const pods = agents.filter((agent) => agent.node === node);
  if (pods.length === 0) return { failure: `${node} has no agent in this namespace` };
  const [reply] = await askAgents<NodeTrace>(
    exec,
    pods.slice(0, 1),
    {
      request: { path: `/v1/trace?${new URLSearchParams({ ...question })}` },
      command: commandOf(question),
      understand: nodeTraceOf,
      timeoutMs: AGENT_TIMEOUT_MS,
      parallel: 1,
      progress: () => undefined,
    },
    signal,
  );
  if (!reply) return { failure: 'no answer' };
  return 'answer' in reply ? { answer: reply.answer } : { failure: reply.failure.replace(/^seinectl ended with \d+: (?:seinectl: )?/, '') };
}

/** Probes of the agents over the relay, which each agent that knows probes has. */
function probesOf(exec: PodExec, agents: readonly AgentPod[], signal: AbortSignal): ProbeAgents {
  const ask = async <T>(node: string, request: RelayRequest, isAnswer: (answer: object) => boolean): Promise<Answered<T>> => {
    const pods = agents.filter((agent) => agent.node === node);
    if (pods.length === 0) return { failure: `${node} has no agent in this namespace` };
    const understand = (text: string): T => objectOf<T>(text, isAnswer);
    const command = ['seinectl', 'trace', '--probe', '--help'];
    const question = { request, command, understand, timeoutMs: AGENT_TIMEOUT_MS, parallel: 1, progress: () => undefined };
    const [reply] = await askAgents<T>(exec, pods.slice(0, 1), question, signal);
    return reply && 'answer' in reply ? { answer: reply.answer } : { failure: reply?.failure ?? 'no answer' };
  };
  return {
    send: (node, question) =>
      ask<NodeProbes>(
        node,
        { path: `/v1/probe?${new URLSearchParams({ ...question })}`, method: 'POST' },
        (answer) => 'probes' in answer && Array.isArray(answer.probes),
      ),
    seen: (node, number, peer) =>
      ask<SeenProbe>(node, { path: `/v1/probe?${new URLSearchParams({ number: String(number), peer })}` }, (answer) => 'end' in answer),
    connect: (node, question) =>
      ask<NodeAttempts>(
        node,
        { path: `/v1/connect?${new URLSearchParams({ ...question })}`, method: 'POST' },
        (answer) => 'attempts' in answer && Array.isArray(answer.attempts),
      ),
  };
}

type Answered<T> = { readonly answer: T } | { readonly failure: string };

/** @throws SeineError `PROTOCOL` for an answer of another form */
function objectOf<T>(text: string, isAnswer: (answer: object) => boolean): T {
  let answer: unknown;
  try {
    answer = JSON.parse(text);
  } catch {
    answer = undefined; // an older agent prints text
  }
  if (typeof answer !== 'object' || answer === null || !isAnswer(answer))
    throw new SeineError('PROTOCOL', 'the answer is not that of a probe: the agent may be older than this seinectl');
  return answer as T;
}

function commandOf({ from, to, port, family, established, 'source-port': sourcePort }: NodeQuestion): readonly string[] {
  return [
    ...['seinectl', 'trace', '--raw'],
    ...(family === undefined ? [] : ['--family', family]),
    ...(sourcePort === undefined ? [] : ['--source-port', sourcePort]),
    ...(established ? ['--established'] : []),
    ...['--', from, to],
    ...(port === undefined ? [] : [port]),
  ];
}

/** @throws SeineError `PROTOCOL` for an answer of another form */
function nodeTraceOf(stdout: string): NodeTrace {
  let answer: unknown;
  try {
    answer = JSON.parse(stdout);
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'the answer is not JSON', { cause });
  }
  const isTrace = typeof answer === 'object' && answer !== null && 'traces' in answer && Array.isArray(answer.traces);
  if (!isTrace) throw new SeineError('PROTOCOL', 'the answer is not a trace: the agent may be older than this seinectl');
  return answer as NodeTrace;
}
