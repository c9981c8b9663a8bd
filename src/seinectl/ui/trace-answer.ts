import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { NodeQuestion } from '../../operations/path/whole-trace.ts';
import { shownTrace, type TraceWithMeaning } from '../../simulate/views/shown-trace.ts';
import type { TraceView } from '../../ui/answers/trace-view.ts';
import { plain } from '../paint.ts';
import type { Terminal } from '../terminal.ts';
import { traceCluster } from '../trace/trace-cluster.ts';
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
});

/** Runs `seinectl trace`. @throws SeineError `INVALID_INPUT` for the question, `REFUSED` for a right, `UNAVAILABLE` */
export async function traceAnswer(query: URLSearchParams, cluster: ShownCluster): Promise<TraceView> {
  const question = traceQuestionOf(query);
  const [out, err]: [string[], string[]] = [[], []];
  const recorder: Terminal = {
    room: { width: Number.POSITIVE_INFINITY, paint: plain },
    line: (text) => void out.push(text),
    remark: (text) => void err.push(text),
  };
  const { kubeconfig, context, agentNamespace, env } = cluster;
  const flags = { ...(kubeconfig && { kubeconfig }), ...(context && { context }), namespace: agentNamespace, output: 'json' } as const;
  const exitCode = await traceCluster(question, flags, recorder, env);
  if (out.length === 0) throw failureOf(exitCode, err.join(' ').replace(/^seinectl: /, ''));
  const { traces } = JSON.parse(out.join('\n')) as { readonly traces: readonly TraceWithMeaning[] };
  return { exitCode, traces: traces.map(({ meanings, ...trace }) => shownTrace(trace, meanings)) };
}

/** @throws SeineError `INVALID_INPUT` that names the field */
export function traceQuestionOf(query: URLSearchParams): NodeQuestion {
  const asked = questionSchema.safeParse(Object.fromEntries([...query].filter(([, value]) => value !== '')));
  if (!asked.success) throw new SeineError('INVALID_INPUT', `${asked.error.issues[0]?.path.join('.')}: a name or an address is required`);
  const { from, to, port, family, established } = asked.data;
  return { from, to, ...(port && { port }), ...(family && { family }), ...(established && { established }) };
}

function failureOf(exitCode: number, message: string): SeineError {
  if (exitCode === traceExitCodes.usage) return new SeineError('INVALID_INPUT', message);
  return new SeineError(/\b40[13]\b/.test(message) ? 'REFUSED' : 'UNAVAILABLE', message);
}
