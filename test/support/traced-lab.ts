import { labPaths, nodePaths } from '../../lab/plan/names.ts';
import type { NodeAttempts, NodeProbes, NodeTrace, SeenProbe } from '../../src/api/trace.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { KubeHttp } from '../../src/kubernetes/client/http-client.ts';
import { meaningFor } from '../../src/operations/path/path-meaning.ts';
import {
  followTrace,
  type NodeQuestion,
  type PathMeaning,
  type TraceAnswer,
  type WholeTrace,
} from '../../src/operations/path/whole-trace.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { readClusterObjects } from '../../src/seinectl/fleet/cluster-objects.ts';
import { usersAccess } from '../../src/seinectl/fleet/kubeconfig.ts';
import { type ProbeAgents, withConnections, withProbes } from '../../src/seinectl/trace/probe-path.ts';
import { traceLines } from '../../src/seinectl/trace/trace-lines.ts';
import { exitCodeOf } from '../../src/seinectl/trace/trace-report.ts';
import type { ConvergeLab } from './converge-lab.ts';

/** Verdicts of the objects in the API server of a lab about the paths of traces. */
export async function meaningsInLab({ plan }: ConvergeLab, traces: readonly WholeTrace[]): Promise<readonly (PathMeaning | undefined)[][]> {
  const http = new KubeHttp(usersAccess({ kubeconfig: labPaths(plan.dir).kubeconfig }, {}), 'test');
  try {
    const objects = await readClusterObjects(http, AbortSignal.timeout(30_000));
    return traces.map((trace) => trace.paths.map((path) => meaningFor(objects, trace, path)));
  } finally {
    http.close();
  }
}

/** Result of `seinectl trace` over the agents of a lab. */
export interface LabTrace {
  readonly traces: readonly WholeTrace[];
  readonly lines: string;
  readonly exitCode: number;
}

/** Traces as `seinectl trace` does with a kubeconfig, without the objects of the API server. @param node of the sender */
export async function traceInLab(
  lab: ConvergeLab,
  node: number,
  question: NodeQuestion,
  options: { readonly probe?: true; readonly connect?: true } = {},
): Promise<LabTrace> {
  const clientOf = (name: string) => new AgentClient(nodePaths(lab.plan.dir, name).apiSocket);
  const ask = async <T>(name: string, path: string, method: 'GET' | 'POST' = 'GET') => {
    try {
      return { answer: (await clientOf(name).json(path, method)) as T };
    } catch (thrown) {
      return { failure: SeineError.from(thrown, 'ask').rawMessage };
    }
  };
  const trace = (name: string, asked: NodeQuestion): Promise<TraceAnswer> =>
    ask<NodeTrace>(name, `/v1/trace?${new URLSearchParams({ ...asked })}`);
  const agents: Omit<ProbeAgents, 'connect'> = {
    send: (name, asked) => ask<NodeProbes>(name, `/v1/probe?${new URLSearchParams({ ...asked })}`, 'POST'),
    seen: (name, number, peer) => ask<SeenProbe>(name, `/v1/probe?${new URLSearchParams({ number: String(number), peer })}`),
  };
  const agentsOfConnections = {
    connect: (name: string, asked: NodeQuestion) => ask<NodeAttempts>(name, `/v1/connect?${new URLSearchParams({ ...asked })}`, 'POST'),
  };
  const first = await trace(lab.node(node).name, question);
  if ('failure' in first) throw new Error(first.failure);
  const followed = await followTrace(first.answer, trace);
  const probed = options.probe ? await withProbes(followed, question, { ...agents, ...agentsOfConnections }) : followed;
  const traces = options.connect ? await withConnections(probed, question, agentsOfConnections) : probed;
  const lines = traces.flatMap((each) => traceLines(each, [], false, { width: 200, paint: (_, text) => text }));
  return { traces, lines: lines.join('\n'), exitCode: exitCodeOf(traces, []) };
}
