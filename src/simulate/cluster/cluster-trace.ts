import { SeineError } from '../../base/errors/seine-error.ts';
import { meaningFor } from '../../operations/path/path-meaning.ts';
import { followTrace, type NodeQuestion, type PathMeaning, type TraceAnswer, type WholeTrace } from '../../operations/path/whole-trace.ts';
import type { SimulatedCluster } from './simulated-cluster.ts';
import { traceInCluster } from './simulated-trace.ts';

interface ClusterTrace {
  readonly traces: readonly WholeTrace[];
  /** Verdicts of the objects, for each path of each trace. */
  readonly meanings: readonly (readonly (PathMeaning | undefined)[])[];
}

/** Traces a packet over all nodes of a simulated cluster that it passes. @throws SeineError `INVALID_INPUT` that names the field and the value */
export async function traceOverCluster(cluster: SimulatedCluster, question: NodeQuestion): Promise<ClusterTrace> {
  const first = await traceInCluster(cluster, cluster.firstNode(question.from, question.to), new URLSearchParams({ ...question }));
  const traces = await followTrace(first, (node, asked) => askSimulated(cluster, node, asked));
  const meanings = traces.map((trace) =>
    trace.paths.map((path) => {
      const endpoints = path.endpoints.map((endpoint) => endpoint.replace(/:\d+$/, ''));
      const received = path.segments.map(({ bridge }) => bridge.packet.destination);
      return meaningFor(cluster.objectsAt([trace.packet.source, trace.packet.destination, ...endpoints, ...received]), trace, path);
    }),
  );
  return { traces, meanings };
}

async function askSimulated(cluster: SimulatedCluster, node: string, question: NodeQuestion): Promise<TraceAnswer> {
  try {
    return { answer: await traceInCluster(cluster, node, new URLSearchParams({ ...question })) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'simulate');
    if (error.code !== 'INVALID_INPUT') throw error;
    return { failure: error.rawMessage };
  }
}
