import { outcomeLines, policyLines } from '../../operations/path/outcome-lines.ts';
import type { PathMeaning, WholePath, WholeTrace } from '../../operations/path/whole-trace.ts';
import type { TracedFamily, TracedNode, TracedWay } from '../../ui/answers/trace-view.ts';

/** Trace with the verdict of the objects about each of its paths. */
export type TraceWithMeaning = WholeTrace & { readonly meanings: readonly (PathMeaning | undefined)[] };

/** Endpoints that are named in a sentence. */
const NAMED_MAX = 3;

/** Converts a trace for the page. */
export function shownTrace(
  { paths, family, from, to, packet, way, entry, connection, moreEndpoints, node }: WholeTrace,
  meanings: TraceWithMeaning['meanings'],
): TracedFamily {
  return {
    ...{ family, from, to, packet, connection, moreEndpoints, node },
    ...(way !== undefined && { way }),
    ...(entry !== undefined && { entry }),
    paths: paths.map((path, at) => wayOf(path, meanings[at])),
  };
}

function wayOf(path: WholePath, meaning: PathMeaning | undefined): TracedWay {
  const { verdict, endpoints, segments, missing, desired, bridge } = path;
  return {
    verdict,
    endpoints,
    stages: segments.map(stageOf),
    verdicts: [
      { of: 'meaning', verdict: meaning?.verdict ?? null, why: meaning ? meaningText(meaning) : 'not compared' },
      { of: 'desired', verdict: desired, why: 'flows that the agents require' },
      { of: 'bridge', verdict: bridge, why: 'flows that are installed' },
    ],
    ...(missing && { missing }),
  };
}

function meaningText({ why, choice, unchosen }: PathMeaning): string {
  const missing = unchosen
    ? [`no flow sends the packet to ${unchosen.slice(0, NAMED_MAX).join(', ')}${unchosen.length > NAMED_MAX ? ' and others' : ''}`]
    : [];
  return [why, ...(choice === undefined ? [] : [choice]), ...missing].join('; ');
}

function stageOf(segment: WholePath['segments'][number]): TracedNode {
  const { node, hops, bridge, difference } = segment;
  const result = bridge.drop ? [] : outcomeLines(bridge, node);
  return {
    node,
    hops,
    result: [...result, ...policyLines(segment)].map((line) => line.trim()),
    ...(bridge.drop && { drop: bridge.drop }),
    ...(difference && { difference }),
  };
}
