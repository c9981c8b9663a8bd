import * as z from 'zod';
import type { LossCause } from '../../api/flow-log.ts';
import type { OpenConnections } from '../../api/open-connections.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { PodExec } from '../../kubernetes/client/pod-exec.ts';
import type { RelayPool } from '../fleet/agent-relay.ts';
import type { AgentPod } from '../fleet/agents.ts';
import { grouped, nodesText } from '../fleet/grouped.ts';
import { type AgentReply, askAgents } from '../fleet/query-agent.ts';
import { type MergedFlow, mergeFlows } from '../flows/merge-flows.ts';
import { readFlowLine } from '../flows/read-flows.ts';
import { count } from '../words.ts';

/** Connections that nodes have recorded, and those that are open. */
export interface ConnectionEvidence {
  /** Nodes whose flow log is on. */
  readonly logged: readonly string[];
  /** Both records of a connection between two nodes are one. */
  readonly flows: readonly MergedFlow[];
  /** Time from which all of them have all records (RFC 3339); absent if no log is on. */
  readonly completeFrom?: string;
  /** Connections that the logs did not record since then. */
  readonly lost: number;
  /** Nodes whose tracker was listed. */
  readonly tracked: readonly string[];
  readonly open: readonly OpenConnections[];
  /** Reason why open connections are not known, or not completely. */
  readonly openUnknown?: string;
}

interface AskedConnections {
  readonly exec: PodExec;
  readonly relays: RelayPool;
  readonly pods: readonly AgentPod[];
  /** Pods concerned, `namespace/name`; too many to be a filter are not one. */
  readonly names: readonly string[];
  readonly sinceSeconds: number;
  readonly signal: AbortSignal;
}

/** Maximum number of reasons in a text. */
const REASONS_SHOWN = 3;

export const noConnections: ConnectionEvidence = { logged: [], flows: [], lost: 0, tracked: [], open: [] };

/** Records of a node: its answer has about 600 bytes for each, and at most 16 MiB. */
const RECORDS_MAX = 20_000;
/** Number of values that a filter of the flow log accepts. */
export const FILTER_NAMES_MAX = 16;
const AGENT_TIMEOUT_MS = 30_000;
const PARALLEL = 16;

const port = z.int().min(0).max(65_535);
const text = z.string().max(64);
const openConnections = z.object({
  tracker: z.enum(['kernel', 'not listed']),
  items: z
    .array(
      z.object({
        protocol: text,
        source: text,
        destination: text,
        port,
        service: z.object({ address: text, port }).optional(),
        connections: z.int().min(0),
      }),
    )
    .max(65_536),
  others: z.int().min(0),
});
type OpenAnswer = z.output<typeof openConnections>;

interface NodeRecords {
  readonly isOn: boolean;
  readonly flows: readonly MergedFlow[];
  readonly completeFrom: string | undefined;
  readonly lost: number;
}

/** Asks agents for the recorded and the open connections of pods. One that does not answer contributes nothing. */
export async function usedConnections(asked: AskedConnections): Promise<ConnectionEvidence> {
  const records = await ask(asked, recordsQuestion(asked));
  // Agents of earlier releases do not have this: their failure is the reason that is printed.
  const open = await ask(asked, { path: '/v1/open-connections', command: ['seinectl', '--help'], understand: openIn });
  return { ...joinedRecords(records), ...joinedOpen(open) };
}

interface ConnectionQuestion<T> {
  readonly path: string;
  readonly command: readonly string[];
  readonly understand: (text: string) => T;
}

/** Question to an agent for records of pods that were opened, denied or refused. */
export function recordsQuestion({
  names,
  sinceSeconds,
}: Pick<AskedConnections, 'names' | 'sinceSeconds'>): ConnectionQuestion<NodeRecords> {
  const query = new URLSearchParams({ since: String(sinceSeconds), last: String(RECORDS_MAX), event: 'opened,denied,refused' });
  if (names.length > 0 && names.length <= FILTER_NAMES_MAX) query.set('pod', names.join(','));
  const filters = [...query].flatMap(([name, value]) => [`--${name}`, name === 'since' ? `${value}s` : value]);
  return { path: `/v1/flow-log?${query}`, command: ['seinectl', 'flows', '--raw', ...filters], understand: recordsIn };
}

async function ask<T>({ exec, relays, pods, signal }: AskedConnections, { path, command, understand }: ConnectionQuestion<T>) {
  const progress = (): void => undefined;
  const question = { request: { path }, relays, command, understand, timeoutMs: AGENT_TIMEOUT_MS, parallel: PARALLEL, progress };
  return await askAgents(exec, pods, question, signal);
}

type Replies<T> = Awaited<ReturnType<typeof ask<T>>>;

/** Joins the records of nodes. Nodes without an answer contribute nothing. */
export function joinedRecords(replies: Replies<NodeRecords>): Pick<ConnectionEvidence, 'logged' | 'flows' | 'completeFrom' | 'lost'> {
  const on = replies.flatMap((reply) => ('answer' in reply && reply.answer.isOn ? [{ node: reply.pod.node, ...reply.answer }] : []));
  const latest = on.flatMap(({ completeFrom }) => completeFrom ?? []).toSorted();
  const completeFrom = latest.at(-1);
  return {
    logged: on.map(({ node }) => node),
    flows: mergeFlows(on.flatMap(({ flows }) => flows)),
    lost: on.reduce((sum, { lost }) => sum + lost, 0),
    ...(completeFrom !== undefined && { completeFrom }),
  };
}

/** Returns the most frequent reasons for which agents did not answer, each with its nodes. */
export function failuresByReason(replies: readonly AgentReply<unknown>[]): readonly string[] {
  const failures = replies.flatMap((reply) => ('failure' in reply ? [{ node: reply.pod.node, reason: reply.failure }] : []));
  return grouped(failures, ({ reason }) => reason)
    .slice(0, REASONS_SHOWN)
    .map(([reason, nodes]) => `${nodesText(nodes.map(({ node }) => node))}: ${reason}`);
}

/** Both nodes of a connection track it: the larger number counts, not the sum. */
function joinedOpen(replies: Replies<OpenAnswer>): Pick<ConnectionEvidence, 'tracked' | 'open' | 'openUnknown'> {
  const most = new Map<string, OpenConnections>();
  let others = 0;
  const tracked: string[] = [];
  const userspace: string[] = [];
  for (const reply of replies) {
    if ('failure' in reply) continue;
    if (reply.answer.tracker === 'not listed') userspace.push(reply.pod.node);
    else {
      tracked.push(reply.pod.node);
      others += reply.answer.others;
      for (const { connections, service, ...ends } of reply.answer.items) {
        const item = { ...ends, ...(service && { service }), connections };
        const key = JSON.stringify([ends, service]);
        if ((most.get(key)?.connections ?? 0) < connections) most.set(key, item);
      }
    }
  }
  const reasons = [
    ...(userspace.length > 0 ? ['not listed on the userspace data path'] : []),
    ...failuresByReason(replies),
    ...(others > 0 ? [`${count(others, 'connection')} beyond the size of an answer`] : []),
  ];
  return { tracked, open: [...most.values()], ...(reasons.length > 0 && { openUnknown: reasons.join('; ') }) };
}

/** Causes why an event that is asked for has no record; others concern ends of connections, names, and the disk. */
const askedLosses = ['sampling', 'meter', 'rate', 'queue', 'denied'] as const satisfies readonly LossCause[];

/** @throws SeineError `PROTOCOL` for an answer of another form */
function recordsIn(written: string): NodeRecords {
  const flows: MergedFlow[] = [];
  let state: { readonly enabled: boolean; readonly completeFrom?: string; readonly lost: number } | undefined;
  for (const each of written.split('\n')) {
    if (each === '') continue;
    const line = readFlowLine(each);
    if ('flow' in line) flows.push({ ...line.flow, nodes: [line.flow.node] });
    else state = { ...line.state, lost: askedLosses.reduce((sum, cause) => sum + line.state.losses[cause], 0) };
  }
  // The oldest are missing if there are more than an answer has.
  const first = flows.length >= RECORDS_MAX ? flows[0]?.time : undefined;
  return { isOn: state?.enabled === true, flows, completeFrom: first ?? state?.completeFrom, lost: state?.lost ?? 0 };
}

/** @throws SeineError `PROTOCOL` for an answer of another form */
function openIn(written: string): OpenAnswer {
  try {
    return openConnections.parse(JSON.parse(written));
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'the agent does not list open connections; it may be older than this seinectl', { cause });
  }
}
