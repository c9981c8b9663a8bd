import { SeineError } from '../../base/errors/seine-error.ts';
import type { ClusterTimeline, TimelineEntry } from '../../ui/answers/timeline.ts';
import { type Answers, answersOf } from '../fleet/answers.ts';
import { mergedEvents, parsedEvent, type TimelineEvent, toneOf } from '../timeline/timeline-lines.ts';
import { type TimelineQuery, timeIn, timelineCommand, timelinePath, timelineSubject } from '../timeline/timeline-query.ts';
import { agentsFor, apiEvents } from '../timeline/timeline-sources.ts';
import type { ClusterConnection } from './cluster-connection.ts';
import { NAMES_LISTED, namesOf, silentGroups, TEXT_CHARACTERS_MAX } from './node-groups.ts';

/** Newest events of the answer, and of one agent. */
const EVENTS_MAX = 1_000;
const ABOUT_MAX = 5;
const AGENT_TIMEOUT_MS = 15_000;
/** Message of an agent whose `history.size` is 0 (src/operations/history/read-timeline.ts). */
const OFF = /history\.size is 0/;

export interface NodeEvents {
  readonly lines: readonly string[];
  readonly more: number;
}

/** Answers the view Timeline. @throws SeineError `INVALID_INPUT` that names the field, `REFUSED` for a right, `UNAVAILABLE` */
export async function timelineAnswer(query: URLSearchParams, connection: ClusterConnection, signal: AbortSignal): Promise<ClusterTimeline> {
  const asked = timelineQuestion(query, Date.now());
  const fleet = await connection.fleet(signal);
  const agents = await agentsFor(asked, connection.http, fleet, signal);
  if (agents.length === 0) throw new SeineError('INVALID_INPUT', `name: there is no agent on ${asked.subject.replace('/', ' ')}`);
  const question = {
    request: { path: timelinePath(asked) },
    command: timelineCommand(asked),
    understand: newestLines,
    timeoutMs: AGENT_TIMEOUT_MS,
  };
  const [replies, ofApi] = await Promise.all([connection.ask(fleet, agents, question, signal), apiEvents(connection.http, asked, signal)]);
  const answers = answersOf(fleet, replies);
  connection.assertExecAllowed(answers);
  return { ...timelineOf(asked, answers, ofApi.events), withoutApi: ofApi.missing?.slice(0, TEXT_CHARACTERS_MAX) ?? null };
}

type AskedTimeline = TimelineQuery & { readonly subject: string };

/** @throws SeineError `INVALID_INPUT` that names the field and the value */
export function timelineQuestion(query: URLSearchParams, nowMs: number): AskedTimeline {
  const subject = timelineSubject(query.get('kind') ?? '', query.get('name')?.trim() || undefined);
  const since = query.get('since') ?? '30m';
  const fromMs = timeIn(since, nowMs);
  if (fromMs === undefined)
    throw new SeineError(
      'INVALID_INPUT',
      `since: ${JSON.stringify(since.slice(0, 100))} is neither a duration such as 30m nor a time (RFC 3339)`,
    );
  const until = query.get('until') ?? '';
  if (until === '') return { subject, fromMs, follow: false };
  const untilMs = timeIn(until, nowMs);
  if (untilMs === undefined || untilMs <= fromMs)
    throw new SeineError('INVALID_INPUT', `until: ${JSON.stringify(until.slice(0, 100))} is not a time after the beginning of the period`);
  return { subject, fromMs, untilMs, follow: false };
}

export function newestLines(text: string): NodeEvents {
  const lines = text.split('\n').filter((line) => line.startsWith('{"time"'));
  return { lines: lines.slice(-EVENTS_MAX), more: Math.max(0, lines.length - EVENTS_MAX) };
}

/** Merges the events of agents and API server. Pure. */
export function timelineOf(
  { subject, fromMs, untilMs }: AskedTimeline,
  { rows, failures }: Answers<NodeEvents>,
  ofApi: readonly TimelineEvent[],
): Omit<ClusterTimeline, 'withoutApi'> {
  const ofNodes = rows.flatMap(({ pod, answer }) => answer.lines.flatMap((line) => parsedEvent(line, [pod.node]) ?? []));
  const events = mergedEvents([...ofNodes, ...ofApi]);
  const off = failures.filter(({ failure }) => OFF.test(failure)).map(({ pod }) => pod.node);
  return {
    subject,
    from: new Date(fromMs).toISOString(),
    until: untilMs === undefined ? null : new Date(untilMs).toISOString(),
    agents: rows.length + failures.length,
    answered: rows.length,
    silent: silentGroups(failures.filter(({ failure }) => !OFF.test(failure))),
    off: off.length === 0 ? null : { text: 'history.size is 0', ...namesOf(off) },
    events: events.slice(-EVENTS_MAX).map((event) => entryOf(event, subject)),
    more: Math.max(0, events.length - EVENTS_MAX) + rows.reduce((sum, { answer }) => sum + answer.more, 0),
  };
}

function entryOf({ time, nodes, kind, subjects, text }: TimelineEvent, subject: string): TimelineEntry {
  const tone = toneOf(kind);
  const others = subjects.filter((each) => each !== subject && !(each.startsWith('node/') && nodes.includes(each.slice('node/'.length))));
  return {
    time,
    kind,
    weight: tone === 'bad' || tone === 'warning' ? tone : 'plain',
    nodes: nodes.slice(0, NAMES_LISTED),
    nodeCount: nodes.length,
    about: others.slice(0, ABOUT_MAX),
    text: text.slice(0, TEXT_CHARACTERS_MAX),
  };
}
