import { setTimeout as sleep } from 'node:timers/promises';
import { seineVersion } from '../../api/version.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { PodExec } from '../../kubernetes/client/pod-exec.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import { RelayPool } from '../fleet/agent-relay.ts';
import { type AgentPod, type Fleet, FollowedGaps, findAgainMs, findAgents } from '../fleet/agents.ts';
import { answersOf, gapLines, isComplete } from '../fleet/answers.ts';
import { usersAccess } from '../fleet/kubeconfig.ts';
import type { ProcessVariables } from '../fleet/kubeconfig-files.ts';
import { askAgents } from '../fleet/query-agent.ts';
import type { Terminal } from '../terminal.ts';
import { FollowedAgents } from './follow-nodes.ts';
import { eventKey, eventLine, mergedEvents, parsedEvent, type TimelineEvent } from './timeline-lines.ts';
import { type TimelineQuery, timelineCommand, timelinePath } from './timeline-query.ts';
import { agentsFor, apiEvents } from './timeline-sources.ts';

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
/** With `--follow`: interval at which events are printed in their order (ms), and number of these between queries of what cannot be followed. */
const PRINT_EVERY_MS = 1_000;
const ASKED_EVERY = 3;
/** Time that each query goes back: clocks of nodes differ (ms). */
const OVERLAP_MS = 20_000;

interface QueriedFleet {
  readonly http: KubeHttp;
  readonly exec: PodExec;
  /** Kept while events are followed. */
  readonly relays: RelayPool;
  readonly fleet: Fleet;
  readonly agents: readonly AgentPod[];
}

/**
 * Prints the events of all nodes that may know of the subject, merged with Events of the API server.
 *
 * @param interrupted aborted by SIGINT
 * @returns the exit code
 */
export async function clusterTimeline(
  query: TimelineQuery,
  options: ClusterTimelineOptions,
  terminal: Terminal,
  env: ProcessVariables,
  interrupted = new AbortController(),
): Promise<number> {
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
  const exec = new PodExec(access, userAgent);
  const relays = new RelayPool(exec);
  try {
    const fleet = await findAgents(http, options.namespace, undefined, signal);
    const agents = await agentsFor(query, http, fleet, signal);
    if (agents.length === 0) throw new SeineError('UNAVAILABLE', `there is no agent in namespace ${options.namespace} to ask`);
    if (query.follow && agents.length > FOLLOWED_MAX)
      throw new SeineError(
        'INVALID_INPUT',
        `--follow: ${agents.length} agents; at most ${FOLLOWED_MAX} can be followed. Name a pod or a node`,
      );
    const reading = { http, exec, relays, fleet, agents };
    const printed = new Set<string>();
    const startMs = Date.now();
    const code = await readOnce(reading, query, options, { terminal, printed }, signal);
    if (!query.follow && printed.size === 0 && !options.isJson) terminal.remark('seinectl: no events in this time');
    return query.follow ? await follow({ ...reading, startMs }, query, options, { terminal, printed }, signal) : code;
  } finally {
    relays.close();
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

/** Prints later events: of agents as they happen, in the order of a second; of the API server, and of agents without a relay, by asking again. */
async function follow(
  reading: QueriedFleet & { readonly startMs: number },
  query: TimelineQuery,
  options: ClusterTimelineOptions,
  printing: Printing,
  signal: AbortSignal,
): Promise<never> {
  const arrivals: TimelineEvent[] = [];
  const remark = (text: string): void => printing.terminal.remark(safeText(`seinectl: ${text}`));
  const nodes = {
    ...{ relays: reading.relays, startMs: reading.startMs, query, wallMs: () => Date.now() },
    arrived: (event: TimelineEvent) => void arrivals.push(event),
    silent: ({ node }: AgentPod, cause: string) => remark(`${node} does not answer: ${cause}`),
  };
  const followed = new FollowedAgents(nodes, signal);
  followed.follow(reading.agents);
  const present = { followed, remark, gaps: new FollowedGaps(remark) };
  const foundEvery = Math.ceil(findAgainMs(reading.fleet.pods.length) / PRINT_EVERY_MS);
  for (let second = 1; ; second++) {
    await sleep(PRINT_EVERY_MS, undefined, { signal });
    followed.throwIfFailed();
    printEvents(arrivals.splice(0), query, options, printing);
    if (second % foundEvery === 0) await followPresent(reading, query, options, present, signal);
    if (second % ASKED_EVERY !== 0) continue;
    const again = { ...query, fromMs: Math.max(query.fromMs, Date.now() - OVERLAP_MS - PRINT_EVERY_MS * ASKED_EVERY) };
    await readOnce({ ...reading, agents: followed.asked }, again, options, printing, signal);
  }
}

interface FollowedFleet {
  readonly followed: FollowedAgents;
  readonly remark: (text: string) => void;
  readonly gaps: FollowedGaps;
}

/** Follows the agents that are there now: a rolling update replaces their pods. Without the API server, the streams continue. */
async function followPresent(
  { http, relays }: QueriedFleet,
  query: TimelineQuery,
  { namespace }: ClusterTimelineOptions,
  { followed, remark, gaps }: FollowedFleet,
  signal: AbortSignal,
): Promise<void> {
  let fleet: Fleet;
  let agents: readonly AgentPod[];
  try {
    fleet = await findAgents(http, namespace, undefined, signal);
    agents = await agentsFor(query, http, fleet, signal);
  } catch (thrown) {
    const error = SeineError.from(thrown, 'find the agents');
    if (signal.aborted || error.code === 'INVARIANT') throw error;
    return; // the next look, or a stream that ends, shows whether that is serious
  }
  // A pod that is on its way is followed once it runs. All agents are too many: the cluster has grown, or the pod that is asked about is gone.
  const isRunning = ({ trouble }: AgentPod): boolean => trouble === undefined;
  gaps.see(followed.present, fleet.pods); // a pod that moves to another node leaves no gap
  const running = followed.among(agents.filter(isRunning), FOLLOWED_MAX);
  if (running.length === 0) return; // all of them are being replaced
  for (const { node, pod } of followed.follow(running)) remark(`${node}: follows ${pod}`);
  relays.keepOnly(running);
}

function printEvents(
  events: readonly TimelineEvent[],
  query: TimelineQuery,
  { isJson }: ClusterTimelineOptions,
  { terminal, printed }: Printing,
): void {
  const unprinted = events.filter((event) => !printed.has(eventKey(event)));
  for (const event of unprinted) printed.add(eventKey(event));
  for (const event of mergedEvents(unprinted)) {
    terminal.line(isJson ? safeLine(JSON.stringify(event)) : eventLine(event, { ...query, withNodes: true }, terminal.room));
  }
  for (const oldest of printed) {
    if (printed.size <= PRINTED_MAX) break;
    printed.delete(oldest);
  }
}

async function readOnce(
  { http, exec, relays, fleet, agents }: QueriedFleet,
  query: TimelineQuery,
  options: ClusterTimelineOptions,
  { terminal, printed }: Printing,
  signal: AbortSignal,
): Promise<number> {
  const asked = {
    request: { path: timelinePath({ ...query, follow: false }) },
    relays,
    command: timelineCommand(query),
    understand: (text: string) => text,
    timeoutMs: options.timeout * 1_000,
    parallel: PARALLEL,
    progress: () => undefined,
  };
  const [replies, ofApi] = await Promise.all([askAgents(exec, agents, asked, signal), apiEvents(http, query, signal)]);
  if (ofApi.missing !== undefined) terminal.remark(safeText(`seinectl: without Events of the API server: ${ofApi.missing}`));
  const answers = answersOf({ ...fleet, without: [] }, replies);
  const ofNodes = answers.rows.flatMap(({ pod, answer }) => answer.split('\n').flatMap((line) => parsedEvent(line, [pod.node]) ?? []));
  printEvents([...ofNodes, ...ofApi.events], query, options, { terminal, printed });
  for (const line of gapLines(answers, terminal.room)) terminal.remark(line);
  return isComplete(answers) ? exitCodes.ok : exitCodes.unreachable;
}
