import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readEvent } from '../../operations/history/event-stream.ts';
import { isAbout } from '../../operations/history/read-timeline.ts';
import type { ClusterNow } from '../../ui/answers/cluster-now.ts';
import type { Explained } from '../../ui/answers/explained.ts';
import type { ClusterTimeline } from '../../ui/answers/timeline.ts';
import type { ClusterTraffic } from '../../ui/answers/traffic.ts';
import { summaryOf } from '../cluster/node-summary.ts';
import type { AgentPod } from '../fleet/agents.ts';
import type { Answers } from '../fleet/answers.ts';
import { readSummaries } from '../flows/read-flows.ts';
import { explainedNode } from './explain-answer.ts';
import { dropsOf, type NodeNow, nowOf } from './now-answer.ts';
import { absentView, type BundleAnswers, type ViewFile } from './shown-bundle.ts';
import { type NodeEvents, newestLines, timelineOf, timelineQuestion } from './timeline-answer.ts';
import { trafficOf, trafficQuestion } from './traffic-answer.ts';

/** Period of the sums in a bundle (s). */
const SUMMED_SECONDS = 3_600;
const TEXT_MAX = 2_000;
const LINES_MAX = 500;

/** Agent of a bundle in place of its pod. */
function agentOf({ node, manifest }: BundleAnswers): AgentPod {
  return { node, namespace: '', pod: node, pool: 'bundle', image: manifest.seine, relay: { program: '', socket: '' } };
}

/** Answers of all bundles to one question. @throws SeineError with `context.absent` if none has one */
function answersIn<T>(
  bundles: readonly BundleAnswers[],
  view: string,
  file: ViewFile,
  read: (text: string, bundle: BundleAnswers) => T,
): Answers<T> {
  const replies = bundles.map((bundle) => {
    const text = bundle.textOf(file);
    if (text === undefined) return { bundle, failure: bundle.lackOf(file) };
    try {
      return { bundle, answer: read(text, bundle) };
    } catch (thrown) {
      return { bundle, failure: `the bundle of ${bundle.node}: ${SeineError.from(thrown, 'read').rawMessage}` };
    }
  });
  const rows = replies.flatMap((each) => ('answer' in each ? [{ pod: agentOf(each.bundle), answer: each.answer as T }] : []));
  const failures = replies.flatMap((each) => ('failure' in each ? [{ pod: agentOf(each.bundle), failure: each.failure ?? '' }] : []));
  if (rows.length === 0)
    throw absentView(
      view,
      failures.map(({ failure }) => failure),
    );
  return { rows, failures, fleet: { pods: bundles.map(agentOf), without: [] } };
}

/** View Now. */
export function bundledNow(bundles: readonly BundleAnswers[]): ClusterNow {
  const answers = answersIn(bundles, 'Now', 'status', (text, { textOf }): NodeNow => {
    const drops = textOf('drops');
    return { summary: summaryOf(text), ...(drops !== undefined && { drops: dropsOf(JSON.parse(drops)) }) };
  });
  return nowOf(bundles.map(({ node }) => node).join(', '), answers, new Map());
}

/** View Traffic: the sums of the hour before the bundle was collected, whatever period is asked for. */
export function bundledTraffic(query: URLSearchParams, bundles: readonly BundleAnswers[]): ClusterTraffic {
  const asked = { ...trafficQuestion(query), seconds: SUMMED_SECONDS, first: 0 };
  const answers = answersIn(bundles, 'Traffic', 'flows', readSummaries);
  return trafficOf(asked, answers, endOf(bundles));
}

/** View Timeline. Durations before now are before the end of the bundles. */
export function bundledTimeline(query: URLSearchParams, bundles: readonly BundleAnswers[]): ClusterTimeline {
  const asked = timelineQuestion(query, endOf(bundles));
  const answers = answersIn(
    bundles,
    'Timeline',
    'events',
    (text, { node }): NodeEvents => newestLines(eventLines(text, { ...asked, node })),
  );
  return { ...timelineOf(asked, answers, []), withoutApi: 'a bundle has no Events of the API server' };
}

export function endOf(bundles: readonly BundleAnswers[]): number {
  return Math.max(...bundles.map(({ manifest }) => Date.parse(manifest.ended) || 0));
}

type BundleTimelineQuestion = ReturnType<typeof timelineQuestion>;

/** Converts recorded events to lines as an agent sends them. */
function eventLines(
  text: string,
  {
    subject,
    fromMs,
    untilMs = Number.POSITIVE_INFINITY,
    node,
  }: Pick<BundleTimelineQuestion, 'subject' | 'fromMs' | 'untilMs'> & { readonly node: string },
): string {
  const lines = text.split('\n').flatMap((line) => {
    const stored = storedLine(line);
    const isInPeriod = stored && Number(stored['t']) >= fromMs && Number(stored['t']) <= untilMs;
    const event = isInPeriod ? readEvent(stored) : undefined;
    return event && isAbout(event, { subject, node }) ? [JSON.stringify(event)] : [];
  });
  return lines.join('\n');
}

/** The last line of a part that was cut off is not JSON. */
function storedLine(line: string): Readonly<Record<string, unknown>> | undefined {
  if (line === '') return undefined;
  try {
    const value: unknown = JSON.parse(line);
    return typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : undefined;
  } catch {
    return undefined;
  }
}

const shortText = z.string().transform((text) => text.slice(0, TEXT_MAX));
const texts = z
  .array(shortText)
  .catch([])
  .transform((all) => all.slice(0, LINES_MAX));
const share = z.object({ wanted: z.number(), held: z.number() });
const viewSchema = z.object({ name: shortText, state: shortText, flows: share, host: share, differences: texts });
const podSchema = viewSchema.extend({ addresses: texts, hostInterface: shortText, link: shortText, hostPorts: texts });
const serviceSchema = viewSchema.extend({ type: shortText, addresses: texts, ports: texts, endpoints: z.number(), notServed: texts });

/** View of a pod, a Service or a node: what its agent listed when the bundle was collected. @throws SeineError `INVALID_INPUT` for an unknown name */
export function bundledExplanation(query: URLSearchParams, bundles: readonly BundleAnswers[]): Explained {
  const [kind, asked] = [query.get('kind') ?? '', (query.get('name') ?? '').trim()];
  if (asked === '') throw new SeineError('INVALID_INPUT', 'name: a name is required');
  if (kind === 'node') return nodeIn(asked, bundles);
  const name = asked.includes('/') ? asked : `default/${asked}`;
  if (kind === 'pod') return listed('Pod', 'pods', podSchema, name, bundles, podLines);
  if (kind === 'service') return listed('Service', 'services', serviceSchema, name, bundles, serviceLines);
  throw new SeineError('INVALID_INPUT', 'kind: pod, service or node');
}

function nodeIn(name: string, bundles: readonly BundleAnswers[]): Explained {
  const own = bundles.filter(({ node }) => node === name);
  if (own.length === 0) throw new SeineError('INVALID_INPUT', `there is no bundle of node ${JSON.stringify(name)}`);
  const { rows } = answersIn(own, 'Node', 'status', (text) => explainedNode(name, JSON.parse(text)));
  const [row] = rows;
  if (!row) throw new SeineError('INVALID_INPUT', `there is no bundle of node ${JSON.stringify(name)}`);
  return row.answer;
}

function listed<T extends z.output<typeof viewSchema>>(
  view: string,
  file: 'pods' | 'services',
  schema: z.ZodType<T>,
  name: string,
  bundles: readonly BundleAnswers[],
  linesOf: (item: T) => readonly string[],
): Explained {
  const { rows } = answersIn(bundles, view, file, (text) => z.object({ items: z.array(z.unknown()) }).parse(JSON.parse(text)).items);
  for (const { pod, answer } of rows)
    for (const item of answer) {
      const parsed = schema.safeParse(item);
      if (!parsed.success || parsed.data.name !== name) continue;
      const { state, flows, host, differences } = parsed.data;
      const common = [`Flows: ${flows.held} of ${flows.wanted} present. Entries of the host: ${host.held} of ${host.wanted}.`];
      return {
        name,
        node: pod.node,
        isFine: state === 'ok',
        lines: [...linesOf(parsed.data), ...common, ...differences.map((each) => `! ${each}`)],
      };
    }
  throw new SeineError('INVALID_INPUT', `no bundle has the ${view.toLowerCase()} ${JSON.stringify(name)}`);
}

function podLines({ addresses, hostInterface, link, hostPorts }: z.output<typeof podSchema>): readonly string[] {
  return [
    `Addresses: ${addresses.join(', ') || 'none'}.`,
    `Interface of the node: ${hostInterface}, ${link}.`,
    ...hostPorts.map((each) => `Host port ${each}.`),
  ];
}

function serviceLines({ type, addresses, ports, endpoints, notServed }: z.output<typeof serviceSchema>): readonly string[] {
  return [
    `Type ${type}, ports ${ports.join(', ') || 'none'}.`,
    `Addresses: ${addresses.join(', ') || 'none'}.`,
    `Endpoints that receive connections: ${endpoints}.`,
    ...notServed.map((each) => `! ${each}`),
  ];
}
