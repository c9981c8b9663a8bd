import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { shownTrace, type TraceWithMeaning } from '../../simulate/views/shown-trace.ts';
import type { TracedFamily, TracedWay, TraceView } from '../../ui/answers/trace-view.ts';
import { plain } from '../paint.ts';
import type { Terminal } from '../terminal.ts';
import { timeIn } from '../timeline/timeline-query.ts';
import { pathOfProbe, probeText } from '../trace/probe-path.ts';
import { traceCluster } from '../trace/trace-cluster.ts';
import { traceClusterAt } from '../trace/trace-cluster-at.ts';
import { traceExitCodes } from '../trace/trace-report.ts';
import type { ShownCluster } from './cluster-connection.ts';

const NAME_CHARACTERS_MAX = 300;

const name = z.string().trim().min(1).max(NAME_CHARACTERS_MAX);
const questionSchema = z.object({
  from: name,
  to: name,
  port: name.optional(),
  family: z.enum(['ipv4', 'ipv6']).optional(),
  established: z.literal('true').optional(),
  probe: z.literal('true').optional(),
  at: name.optional(),
});

/** Runs `seinectl trace`. @throws SeineError `INVALID_INPUT` for the question, `REFUSED` for a right, `UNAVAILABLE` */
export async function traceAnswer(query: URLSearchParams, cluster: ShownCluster): Promise<TraceView> {
  const { question, probe, at } = traceQuestionOf(query);
  if (probe && at) throw new SeineError('INVALID_INPUT', 'probe: a packet cannot be sent at a time in the past');
  const atMs = at === undefined ? undefined : pastTime(at);
  const [out, err]: [string[], string[]] = [[], []];
  const recorder: Terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text) => void out.push(text),
    remark: (text) => void err.push(text),
  };
  const { kubeconfig, context, agentNamespace, env } = cluster;
  const flags = { ...(kubeconfig && { kubeconfig }), ...(context && { context }), namespace: agentNamespace, output: 'json' } as const;
  const exitCode =
    atMs === undefined
      ? await traceCluster(question, { ...flags, ...(probe && { probe }) }, recorder, env)
      : await traceClusterAt(question, { ...flags, at: atMs }, recorder, env);
  if (out.length === 0) throw failureOf(exitCode, err.join(' ').replace(/^seinectl: /, ''));
  const { traces } = JSON.parse(out.join('\n')) as { readonly traces: readonly (TraceWithMeaning | PastTrace)[] };
  return { exitCode, traces: traces.map((trace) => ('meanings' in trace ? presentTrace(trace) : pastTrace(trace))) };
}

/** @throws SeineError `INVALID_INPUT` for a text that is not a time, or for one that has not come */
function pastTime(text: string): number {
  const nowMs = Date.now();
  const ms = timeIn(text, nowMs);
  if (ms === undefined || ms > nowMs)
    throw new SeineError(
      'INVALID_INPUT',
      `at: ${JSON.stringify(text.slice(0, 100))} is neither a duration before now such as 30m nor a past time (RFC 3339)`,
    );
  return ms;
}

function presentTrace({ meanings, ...trace }: TraceWithMeaning): TracedFamily {
  const shown = shownTrace(trace, meanings);
  const { probe } = trace;
  if (!probe) return shown;
  const text = probeText(probe);
  const probed = trace.paths.indexOf(pathOfProbe(probe, trace.paths) as (typeof trace.paths)[number]); // -1 without paths
  const withPacket = (way: TracedWay): TracedWay => ({
    ...way,
    verdicts: [...way.verdicts, { of: 'packet', verdict: probe.verdict, why: text }],
  });
  const paths = shown.paths.map((way, at) => (at === probed ? withPacket(way) : way));
  return { ...shown, paths, probe: { verdict: probe.verdict, text, notes: probe.notes } };
}

/** Trace of the past, in JSON: only the flows that agents required are known. */
type PastTrace = Omit<TraceWithMeaning, 'meanings'>;

function pastTrace({ at, ...trace }: PastTrace): TracedFamily {
  const paths = trace.paths.map((path) => ({
    ...path,
    bridge: path.desired,
    segments: path.segments.map((segment) => ({ ...segment, bridge: segment.desired })),
  }));
  const shown = shownTrace({ ...trace, paths }, []);
  const ways = shown.paths.map((way) => ({ ...way, verdicts: way.verdicts.filter(({ of }) => of === 'desired') }));
  return { ...shown, paths: ways, ...(at && { at }) };
}

interface PageTraceQuestion {
  readonly question: NodeQuestion;
  /** True to send a packet too. */
  readonly probe: boolean;
  /** Time in the past, as written. */
  readonly at?: string;
}

/** @throws SeineError `INVALID_INPUT` that names the field */
export function traceQuestionOf(query: URLSearchParams): PageTraceQuestion {
  const asked = questionSchema.safeParse(Object.fromEntries([...query].filter(([, value]) => value !== '')));
  if (!asked.success) throw new SeineError('INVALID_INPUT', `${asked.error.issues[0]?.path.join('.')}: a name or an address is required`);
  const { from, to, port, family, established, probe, at } = asked.data;
  const question = { from, to, ...(port && { port }), ...(family && { family }), ...(established && { established }) };
  return { question, probe: probe !== undefined, ...(at !== undefined && { at }) };
}

function failureOf(exitCode: number, message: string): SeineError {
  if (exitCode === traceExitCodes.usage) return new SeineError('INVALID_INPUT', message);
  return new SeineError(/\b40[13]\b/.test(message) ? 'REFUSED' : 'UNAVAILABLE', message);
}
