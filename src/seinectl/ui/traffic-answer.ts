import { type FlowSummaries, type FlowSummary, lossCauses } from '../../api/flow-log.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { ClusterTraffic, TrafficCell, TrafficEdge } from '../../ui/answers/traffic.ts';
import { type Answers, answersOf } from '../fleet/answers.ts';
import { lossTexts } from '../flows/flow-lines.ts';
import { joinedSummaries } from '../flows/joined-summaries.ts';
import { readSummaries } from '../flows/read-flows.ts';
import { secondsOf } from '../words.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { namesOf, silentGroups } from './node-groups.ts';

/** Agents that are asked at once. */
export const AGENTS_MAX = 500;
/** Namespaces of the matrix, and workloads and edges of a namespace. */
const NAMESPACES_MAX = 40;
const WORKLOADS_MAX = 80;
const EDGES_MAX = 200;
const SECONDS_MAX = 3_600;
/** The period begins with a whole minute. */
const MINUTE_S = 60;
const NAME_CHARACTERS_MAX = 300;
const AGENT_TIMEOUT_MS = 10_000;

interface TrafficQuestion {
  readonly seconds: number;
  /** First agent to ask, from 0. */
  readonly first: number;
  readonly namespace?: string;
  /** Only edges with an end whose name contains this text. */
  readonly find?: string;
}

/** Answers the view Traffic. @throws SeineError `INVALID_INPUT` that names the field, `REFUSED` for a right, `UNAVAILABLE` */
export async function trafficAnswer(query: URLSearchParams, connection: ClusterConnection, signal: AbortSignal): Promise<ClusterTraffic> {
  const asked = trafficQuestion(query);
  const fleet = await connection.fleet(signal);
  const pods = fleet.pods.slice(asked.first, asked.first + AGENTS_MAX);
  const question = {
    request: { path: `/v1/flow-log/summary?seconds=${asked.seconds}` },
    command: ['seinectl', 'flows', '--raw', 'matrix', '--for', `${asked.seconds}s`],
    understand: readSummaries,
    timeoutMs: AGENT_TIMEOUT_MS,
  };
  const answers = answersOf(fleet, await connection.ask(fleet, pods, question, signal));
  connection.assertExecAllowed(answers);
  return trafficOf(asked, answers, Date.now());
}

/** @throws SeineError `INVALID_INPUT` that names the field and the value */
export function trafficQuestion(query: URLSearchParams): TrafficQuestion {
  const period = query.get('for') ?? '10m';
  const seconds = secondsOf(period);
  if (seconds === undefined || seconds < 1 || seconds > SECONDS_MAX)
    throw new SeineError('INVALID_INPUT', `for: ${JSON.stringify(period.slice(0, 100))} is not a duration from 1s to 1h`);
  const first = query.get('first') ?? '0';
  if (!/^\d{1,6}$/.test(first))
    throw new SeineError('INVALID_INPUT', `first: ${JSON.stringify(first.slice(0, 100))} is not a whole number`);
  const [namespace, find] = ['namespace', 'find'].map((name) => (query.get(name) ?? '').trim().slice(0, NAME_CHARACTERS_MAX));
  return { seconds, first: Number(first), ...(namespace && { namespace }), ...(find && { find }) };
}

/** Joins the sums of agents. Pure. */
export function trafficOf(question: TrafficQuestion, { rows, failures, fleet }: Answers<FlowSummaries>, nowMs: number): ClusterTraffic {
  const { seconds, first, namespace, find } = question;
  const on = rows.filter(({ answer }) => answer.state.enabled);
  const off = rows.filter(({ answer }) => !answer.state.enabled).map(({ pod }) => pod.node);
  const items = joinedSummaries(
    on.map(({ answer }) => answer),
    undefined,
  );
  return {
    ...{ seconds, first, agents: fleet.pods.length, asked: rows.length + failures.length, answered: rows.length },
    silent: silentGroups(failures),
    off: off.length === 0 ? null : { text: 'flowLog.enabled is false', ...namesOf(off) },
    completeFrom: completeFrom(
      on.map(({ answer }) => answer),
      nowMs - seconds * 1_000,
    ),
    countedSeconds: countedSeconds(
      on.map(({ answer }) => answer),
      { seconds, nowMs },
    ),
    losses: lossCauses.flatMap((cause) => {
      const count = on.reduce((sum, { answer }) => sum + answer.state.losses[cause], 0);
      return count === 0 ? [] : [{ text: lossTexts[cause], count }];
    }),
    unnamed: on.reduce((sum, { answer }) => sum + answer.others, 0),
    matrix: matrixOf(items),
    namespace: namespace === undefined ? null : namespaceOf(items, namespace, find),
  };
}

/** Time in which the connections were counted: since the first node's whole minute, or since its log was turned on. At least a second. */
function countedSeconds(
  answers: readonly FlowSummaries[],
  { seconds, nowMs }: { readonly seconds: number; readonly nowMs: number },
): number {
  const starts = answers.map(({ since, state }) => Math.max(Date.parse(since), Date.parse(state.completeFrom ?? '') || 0));
  const counted = Math.round((nowMs - Math.min(nowMs, ...starts)) / 1_000);
  return Math.min(Math.max(1, counted), seconds + MINUTE_S);
}

/** Whole minutes are summed up: a log that is complete since the period's first minute is complete. */
function completeFrom(answers: readonly FlowSummaries[], fromMs: number): string | null {
  const latest = Math.max(...answers.map(({ state }) => Date.parse(state.completeFrom ?? '') || 0));
  return latest > fromMs + 1_000 ? new Date(latest).toISOString() : null;
}

const isDenied = ({ verdict }: FlowSummary): boolean => verdict === 'denied' || verdict === 'refused';

/** Namespace of a workload; ends that are not pods in parentheses, which no namespace's name has. */
function partyOf(end: string): string {
  const slash = end.indexOf('/');
  if (slash >= 0) return end.slice(0, slash);
  return end.startsWith('node ') ? '(nodes)' : `(${end})`;
}

function matrixOf(items: readonly FlowSummary[]): ClusterTraffic['matrix'] {
  const between = items.map((item) => ({ ...item, source: partyOf(item.source), destination: partyOf(item.destination) }));
  const { names, fold } = busiest(between, NAMESPACES_MAX);
  const cells = [...Map.groupBy(between, ({ source, destination }) => JSON.stringify([fold(source), fold(destination)])).entries()];
  return {
    parties: names,
    cells: cells.map(([ends, of]): TrafficCell => {
      const [from = '', to = ''] = JSON.parse(ends) as string[];
      return { from, to, connections: connectionsOf(of), denied: connectionsOf(of.filter(isDenied)) };
    }),
  };
}

function namespaceOf(items: readonly FlowSummary[], name: string, find: string | undefined): ClusterTraffic['namespace'] {
  const own = items.filter(({ source, destination }) => [source, destination].some((end) => end.startsWith(`${name}/`)));
  const found = find === undefined ? own : own.filter(({ source, destination }) => source.includes(find) || destination.includes(find));
  const { names, fold } = busiest(found, WORKLOADS_MAX);
  const groups = Map.groupBy(found, ({ connections: _, bytes: __, source, destination, ...key }) =>
    JSON.stringify([fold(source), fold(destination), key]),
  );
  const edges = [...groups.entries()]
    .map(([key, of]): TrafficEdge => {
      const [source = '', destination = '', rest] = JSON.parse(key) as [string, string, Omit<TrafficEdge, 'source' | 'destination'>];
      const bytes = of.reduce((sum, item) => sum + BigInt(item.bytes ?? 0), 0n);
      return { ...rest, source, destination, connections: connectionsOf(of), ...(bytes > 0n && { bytes: String(bytes) }) };
    })
    .toSorted((a, b) => b.connections - a.connections || compareText(a.source + a.destination, b.source + b.destination));
  const rest = edges.slice(EDGES_MAX);
  return { name, parties: names, edges: edges.slice(0, EDGES_MAX), moreEdges: rest.length, moreConnections: connectionsOf(rest) };
}

interface BusiestNames {
  /** Names with most connections first, equal ones by text, then one for the rest. */
  readonly names: readonly string[];
  /** Returns the name under which an end is shown. */
  readonly fold: (end: string) => string;
}

function busiest(items: readonly FlowSummary[], most: number): BusiestNames {
  const sums = new Map<string, number>();
  for (const { source, destination, connections } of items)
    for (const end of new Set([source, destination])) sums.set(end, (sums.get(end) ?? 0) + connections);
  const all = [...sums].toSorted(([a, x], [b, y]) => y - x || compareText(a, b)).map(([end]) => end);
  if (all.length <= most) return { names: all, fold: (end) => end };
  const shown = new Set(all.slice(0, most));
  const others = `(${all.length - most} others)`;
  return { names: [...shown, others], fold: (end) => (shown.has(end) ? end : others) };
}

function connectionsOf(items: readonly Pick<FlowSummary, 'connections'>[]): number {
  return items.reduce((sum, { connections }) => sum + connections, 0);
}

function compareText(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
