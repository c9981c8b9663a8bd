import { setTimeout as sleep } from 'node:timers/promises';
import * as z from 'zod';
import { seineVersion } from '../../api/version.ts';
import { LoopTurns } from '../../base/async/loop-turns.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp, segment } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { listObjects } from '../../kubernetes/client/reflector/object-list.ts';
import { parseObject } from '../../kubernetes/client/resource.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { type AgentPod, type Fleet, findAgents } from '../fleet/agents.ts';
import { answersOf, gapLines, isComplete } from '../fleet/answers.ts';
import { type ProcessVariables, usersAccess } from '../fleet/kubeconfig.ts';
import { askAgents } from '../fleet/query-agent.ts';
import type { Terminal } from '../terminal.ts';
import { eventLine, mergedEvents, parsedEvent, type TimelineEvent } from './timeline-lines.ts';
import type { TimelineQuery } from './timeline-query.ts';

interface ClusterTimelineOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly namespace: string;
  /** Seconds, for each agent. */
  readonly timeout: number;
  readonly isJson: boolean;
}

/** Number of agents queried in parallel, and of agents that can be followed. */
const PARALLEL = 16;
const FOLLOWED_MAX = 64;
/** Interval of queries with `--follow` (ms), and the time that each of them goes back: clocks of nodes differ (ms). */
const FOLLOW_EVERY_MS = 3_000;
const OVERLAP_MS = 20_000;
/** Maximum number of events of the API server. */
const API_EVENTS_MAX = 10_000;

interface QueriedFleet {
  readonly http: KubeHttp;
  readonly exec: PodExec;
  readonly fleet: Fleet;
  readonly agents: readonly AgentPod[];
}

/** Prints the events of all nodes that may know of the subject, merged with Events of the API server. @returns the exit code */
export async function clusterTimeline(
  query: TimelineQuery,
  options: ClusterTimelineOptions,
  terminal: Terminal,
  env: ProcessVariables,
): Promise<number> {
  const interrupted = new AbortController();
  const interrupt = (): void => interrupted.abort(new SeineError('CANCELLED', 'interrupted'));
  process.once('SIGINT', interrupt);
  try {
    return await read(query, options, terminal, env, interrupted.signal);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'seinectl timeline');
    if (interrupted.signal.aborted) return exitCodes.ok;
    if (error.code === 'INVARIANT') throw error;
    const cause = error.cause instanceof Error && error.code === 'INVALID_INPUT' ? `: ${error.cause.message}` : '';
    terminal.remark(safeText(`seinectl: ${error.rawMessage}${cause}`));
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  } finally {
    process.off('SIGINT', interrupt);
  }
}

async function read(
  query: TimelineQuery,
  options: ClusterTimelineOptions,
  terminal: Terminal,
  env: ProcessVariables,
  signal: AbortSignal,
): Promise<number> {
  const access = usersAccess(options, env);
  const userAgent = `seinectl/${seineVersion}`;
  const http = new KubeHttp(access, userAgent);
  try {
    const fleet = await findAgents(http, options.namespace, undefined, signal);
    const agents = await agentsFor(query, http, fleet, signal);
    if (agents.length === 0) throw new SeineError('UNAVAILABLE', `there is no agent in namespace ${options.namespace} to ask`);
    if (query.follow && agents.length > FOLLOWED_MAX)
      throw new SeineError(
        'INVALID_INPUT',
        `--follow: ${agents.length} agents; at most ${FOLLOWED_MAX} can be followed. Name a pod or a node`,
      );
    const reading = { http, exec: new PodExec(access, userAgent), fleet, agents };
    const printed = new Set<string>();
    let code = await readOnce(reading, query, options, { terminal, printed }, signal);
    while (query.follow) {
      await sleep(FOLLOW_EVERY_MS, undefined, { signal });
      const again = { ...query, fromMs: Math.max(query.fromMs, Date.now() - OVERLAP_MS - FOLLOW_EVERY_MS) };
      code = await readOnce(reading, again, options, { terminal, printed }, signal);
    }
    return code;
  } finally {
    http.close();
  }
}

interface Printing {
  readonly terminal: Terminal;
  /** Events that were printed, by their content. */
  readonly printed: Set<string>;
}

/** Number of printed events that are remembered: those of the overlap, for 64 nodes. */
const PRINTED_MAX = 50_000;

async function readOnce(
  { http, exec, fleet, agents }: QueriedFleet,
  query: TimelineQuery,
  { timeout, isJson }: ClusterTimelineOptions,
  { terminal, printed }: Printing,
  signal: AbortSignal,
): Promise<number> {
  const asked = {
    command: commandOf(query),
    understand: (text: string) => text,
    timeoutMs: timeout * 1_000,
    parallel: PARALLEL,
    progress: () => undefined,
  };
  const [replies, ofApi] = await Promise.all([askAgents(exec, agents, asked, signal), apiEvents(http, query, terminal, signal)]);
  const answers = answersOf({ ...fleet, without: [] }, replies);
  const ofNodes = answers.rows.flatMap(({ pod, answer }) => answer.split('\n').flatMap((line) => parsedEvent(line, [pod.node]) ?? []));
  for (const event of mergedEvents([...ofNodes, ...ofApi])) {
    const key = JSON.stringify([event.time, event.kind, event.text]);
    if (printed.has(key)) continue;
    printed.add(key);
    terminal.line(isJson ? safeLine(JSON.stringify(event)) : eventLine(event, { ...query, withNodes: true }, terminal.room));
  }
  for (const oldest of printed) {
    if (printed.size <= PRINTED_MAX) break;
    printed.delete(oldest);
  }
  for (const line of gapLines(answers, terminal.room)) terminal.remark(line);
  return isComplete(answers) ? exitCodes.ok : exitCodes.unreachable;
}

/** The command writes a line at its end, so that an answer without events is not taken for a missing one. */
function commandOf({ subject, fromMs, untilMs }: TimelineQuery): readonly string[] {
  const [kind = '', ...name] = (subject ?? '').split('/');
  const until = untilMs === undefined ? [] : ['--until', new Date(untilMs).toISOString()];
  const about = subject === undefined ? [] : [kind, name.join('/')];
  return ['seinectl', 'timeline', ...about, '--since', new Date(fromMs).toISOString(), ...until, '-o', 'json', '--end'];
}

/** Returns the agents to ask: that of the node, or of the pod's node if the pod exists, otherwise all. */
async function agentsFor({ subject }: TimelineQuery, http: KubeHttp, { pods }: Fleet, signal: AbortSignal): Promise<readonly AgentPod[]> {
  const [kind, ...name] = (subject ?? '').split('/');
  if (kind === 'node') return pods.filter(({ node }) => node === name[0]);
  if (kind !== 'pod') return pods;
  const path = `/api/v1/namespaces/${segment(name[0] ?? '')}/pods/${segment(name[1] ?? '')}`;
  const pod = await http.json({ path }, signal).catch((thrown: unknown) => {
    if (SeineError.from(thrown, 'read the pod').code === 'INVARIANT') throw thrown;
    return undefined; // it was deleted, or may not be read: any node may know of it
  });
  const read = z.object({ spec: z.object({ nodeName: z.string() }) }).safeParse(pod);
  const own = read.success ? pods.filter(({ node }) => node === read.data.spec.nodeName) : [];
  return own.length > 0 ? own : pods;
}

const apiEventSchema = z.object({
  metadata: z.object({ creationTimestamp: z.string().nullish() }),
  reason: z.string().nullish(),
  message: z.string().nullish(),
  type: z.string().nullish(),
  count: z.number().nullish(),
  eventTime: z.string().nullish(),
  firstTimestamp: z.string().nullish(),
  lastTimestamp: z.string().nullish(),
  involvedObject: z.object({ kind: z.string().nullish(), namespace: z.string().nullish(), name: z.string().nullish() }),
});

const involvedKinds: Readonly<Record<string, string>> = { pod: 'Pod', service: 'Service', node: 'Node', policy: 'NetworkPolicy' };

/** Events of the API server about the subject, or about nodes. None if they may not be read: that is reported. */
async function apiEvents(
  http: KubeHttp,
  { subject, fromMs, untilMs }: TimelineQuery,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<TimelineEvent[]> {
  const [kind = 'node', ...name] = (subject ?? 'node').split('/');
  const [namespace, object] = name.length === 2 ? [name[0], name[1]] : [undefined, name[0]];
  const path = namespace === undefined ? '/api/v1/events' : `/api/v1/namespaces/${segment(namespace)}/events`;
  const fieldSelector = [
    `involvedObject.kind=${involvedKinds[kind]}`,
    ...(object === undefined ? [] : [`involvedObject.name=${object}`]),
  ].join(',');
  const found: TimelineEvent[] = [];
  try {
    const resource = { kind: 'Event', path, fieldSelector, project: (raw: unknown) => timelineEvent(parseObject(apiEventSchema, raw)) };
    for await (const event of listObjects({ http, turns: new LoopTurns(20) }, resource, signal)) {
      const atMs = Date.parse(event.time);
      if (atMs >= fromMs && atMs <= (untilMs ?? Number.MAX_SAFE_INTEGER) && found.push(event) >= API_EVENTS_MAX) break;
    }
  } catch (thrown) {
    const error = SeineError.from(thrown, 'list events');
    if (error.code === 'CANCELLED' || error.code === 'INVARIANT') throw error;
    terminal.remark(safeText(`seinectl: without Events of the API server: ${error.rawMessage}`));
  }
  return found;
}

function timelineEvent(event: z.output<typeof apiEventSchema>): TimelineEvent | undefined {
  const { metadata, reason, message, count, involvedObject: of } = event;
  const when = event.lastTimestamp ?? event.eventTime ?? event.firstTimestamp ?? metadata.creationTimestamp ?? '';
  const atMs = Date.parse(when);
  if (Number.isNaN(atMs)) return undefined;
  const kind = Object.entries(involvedKinds).find(([, name]) => name === of.kind)?.[0] ?? '';
  const subject = of.namespace && kind !== 'node' ? `${kind}/${of.namespace}/${of.name}` : `${kind}/${of.name}`;
  const times = (count ?? 1) > 1 ? ` (${count} times)` : '';
  return {
    time: new Date(atMs).toISOString(),
    nodes: [],
    kind: `event.${reason ?? ''}`,
    subjects: [subject],
    text: `${message ?? ''}${times}`,
    data: { type: event.type ?? '' },
  };
}
