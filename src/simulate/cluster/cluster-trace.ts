import type { NodeTrace } from '../../api/trace.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { cidrContains, parseCidr, parseIp } from '../../base/net/ip.ts';
import { entryNode } from '../../operations/path/entry-node.ts';
import { forwardedPacket, isThroughService, meaningFor } from '../../operations/path/path-meaning.ts';
import {
  followTrace,
  type NodeQuestion,
  type PathMeaning,
  type TraceAnswer,
  type WholeTrace,
  withEntry,
} from '../../operations/path/whole-trace.ts';
import { choiceFor } from '../../policy/verify/forwarding-reference/forwarding-reference.ts';
import type { BundledNode } from './bundled-node.ts';
import type { SimulatedCluster } from './simulated-cluster.ts';
import { traceInCluster } from './simulated-trace.ts';

interface ClusterTrace {
  readonly traces: readonly WholeTrace[];
  /** Verdicts of the objects, for each path of each trace. */
  readonly meanings: readonly (readonly (PathMeaning | undefined)[])[];
}

/** Nodes with flows of their own, by name. */
type RecordedNodes = ReadonlyMap<string, Pick<BundledNode, 'trace' | 'refusesTunnelOf'>>;

interface KnownParts {
  /** Nodes that are not compiled, because their flows are known. */
  readonly recorded?: RecordedNodes;
  /** False if the objects have no Services although the cluster may have some. */
  readonly hasServices?: boolean;
  /** Node that a packet from outside enters; absent: as the objects require. */
  readonly via?: string;
}

/**
 * Traces a packet over all nodes of a simulated cluster that it passes.
 *
 * @throws SeineError `INVALID_INPUT` that names the field and the value
 */
export async function traceOverCluster(
  cluster: SimulatedCluster,
  question: NodeQuestion,
  { recorded = new Map(), hasServices = true, via }: KnownParts = {},
): Promise<ClusterTrace> {
  const entry = via === undefined ? entryNode(cluster.objects, question) : { node: via };
  const isKnown = entry && (recorded.size === 0 || recorded.has(entry.node));
  const name = isKnown
    ? entry.node
    : cluster.firstNode(question.from, question.to, recorded.size > 0 ? [...recorded.keys()] : cluster.nodeNames);
  const traceOn = async (node: string, asked: NodeQuestion): Promise<NodeTrace> => {
    const query = new URLSearchParams({ ...asked });
    return await (recorded.get(node)?.trace(query) ?? traceInCluster(cluster, node, query));
  };
  const followed = await followTrace(await traceOn(name, question), (node, asked) =>
    answerOf(node, asked, { recorded, traceOn, isOfPods: (address) => isOfPods(cluster, address) }),
  );
  const traces = withEntry(followed, isKnown ? entry : undefined);
  const meanings = traces.map((trace) =>
    trace.paths.map((path) => {
      if (!hasServices && isThroughService(question, path)) return undefined;
      const endpoints = path.endpoints.map((endpoint) => endpoint.replace(/:\d+$/, ''));
      const received = path.segments.map(({ bridge }) => bridge.packet.destination);
      const ends = [trace.packet.source, trace.packet.destination, ...endpoints, ...received];
      // A path that ends before the choice of an endpoint is judged by one that the objects give.
      const objects = cluster.objectsAt(ends, [trace.node]);
      const [given] = path.endpoints.length > 0 ? [] : (choiceFor(objects, forwardedPacket(trace))?.endpoints ?? []);
      return meaningFor(given ? cluster.objectsAt([...ends, given.address], [trace.node]) : objects, trace, path);
    }),
  );
  return { traces, meanings };
}

function isOfPods({ objects }: SimulatedCluster, address: string): boolean {
  const ip = parseIp(address);
  return objects.nodes.some(({ spec }) => (spec.podCIDRs ?? []).some((network) => cidrContains(parseCidr(network), ip)));
}

interface AnsweringNodes {
  readonly recorded: RecordedNodes;
  /** Reports whether an address is in the network of any node's pods. */
  readonly isOfPods: (address: string) => boolean;
  readonly traceOn: (node: string, asked: NodeQuestion) => Promise<NodeTrace>;
}

async function answerOf(
  node: string,
  asked: NodeQuestion,
  { recorded, traceOn, isOfPods: isPodAddress }: AnsweringNodes,
): Promise<TraceAnswer> {
  // A compiled node expects pods' packets in the tunnel: that the kernels of two nodes can do without is not among the objects.
  if (asked.from.startsWith('direct:') && !recorded.has(node) && isPodAddress(asked.to))
    return { failure: 'packets reach it without a tunnel, and there is no bundle of this node: add its bundle' };
  const [, sender] = /^tunnel:([^/]+)\//.exec(asked.from) ?? [];
  if (sender !== undefined && !recorded.has(sender) && recorded.get(node)?.refusesTunnelOf(sender))
    return { failure: `packets of ${sender} reach it without a tunnel, and there is no bundle of ${sender}: add its bundle` };
  try {
    return { answer: await traceOn(node, asked) };
  } catch (thrown) {
    const error = SeineError.from(thrown, 'simulate');
    if (error.code !== 'INVALID_INPUT') throw error;
    return { failure: error.rawMessage };
  }
}
