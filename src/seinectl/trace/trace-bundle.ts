import { SeineError } from '../../base/errors/seine-error.ts';
import { isThroughService, meaningFor } from '../../operations/path/path-meaning.ts';
import { followTrace, type NodeQuestion, type PathMeaning, type TraceAnswer, type WholeTrace } from '../../operations/path/whole-trace.ts';
import type { BundleObjects } from '../reach/bundle-objects.ts';
import { remarkLack } from '../reach/reports.ts';
import type { Terminal } from '../terminal.ts';
import { type ReadBundle, readBundle } from './read-bundle.ts';
import { report, type TraceFlags } from './trace-report.ts';

/** Traces with the flows in support bundles. No cluster and no agent is asked. @returns the exit code */
export async function traceBundles(
  paths: readonly string[],
  question: NodeQuestion,
  { output }: Pick<TraceFlags, 'output'>,
  terminal: Terminal,
): Promise<number> {
  const bundles: ReadBundle[] = [];
  for (const path of paths) bundles.push(await readBundle(path));
  const first =
    bundles.find(({ node }) => node.hasPod(question.from)) ?? bundles.find(({ node }) => node.hasPod(question.to)) ?? bundles[0];
  if (!first) throw new SeineError('INVALID_INPUT', '--bundle: a file is required');
  const ask = async (name: string, asked: NodeQuestion): Promise<TraceAnswer> => {
    const bundle = bundles.find(({ node }) => node.name === name);
    if (!bundle) return { failure: `there is no bundle of this node: add --bundle FILE` };
    return { answer: await bundle.node.trace(new URLSearchParams({ ...asked })) };
  };
  const traces = await followTrace(await first.node.trace(new URLSearchParams({ ...question })), ask);
  const meanings = meaningsOf(
    traces,
    question,
    bundles.flatMap((each) => each.known ?? []),
  );
  const code = report(traces, meanings, output, terminal);
  if (!bundles.some(({ known }) => known)) for (const { lack } of bundles) if (lack !== undefined) remarkLack(lack, terminal);
  return code;
}

/** Verdicts of the objects. Without Services, only packets that none translates have one. */
function meaningsOf(
  traces: readonly WholeTrace[],
  question: NodeQuestion,
  known: readonly BundleObjects[],
): readonly (readonly (PathMeaning | undefined)[])[] {
  const { objects, lacks = [] } = known.find((each) => each.lacks.length === 0) ?? known[0] ?? {};
  const hasServices = lacks.length === 0;
  return traces.map((trace) =>
    trace.paths.map((path) =>
      objects && (hasServices || !isThroughService(question, path)) ? meaningFor(objects, trace, path) : undefined,
    ),
  );
}
