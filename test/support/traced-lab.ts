import { nodePaths } from '../../lab/plan/names.ts';
import type { NodeAttempts, NodeProbes, NodeTrace, SeenProbe } from '../../src/api/trace.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { followTrace, type NodeQuestion, type TraceAnswer, type WholeTrace } from '../../src/operations/path/whole-trace.ts';
import { AgentClient } from '../../src/seinectl/agent-client.ts';
import { type ProbeAgents, withConnections, withProbes } from '../../src/seinectl/trace/probe-path.ts';
import { traceLines } from '../../src/seinectl/trace/trace-lines.ts';
import { exitCodeOf } from '../../src/seinectl/trace/trace-report.ts';
import type { ConvergeLab } from './converge-lab.ts';

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
