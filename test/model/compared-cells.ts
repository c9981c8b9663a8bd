import type { FlowSource } from '../../src/dataplane/flow-walk/installed-flow.ts';
import { entryNode } from '../../src/operations/path/entry-node.ts';
import { meaningFor } from '../../src/operations/path/path-meaning.ts';
import { followTrace, type NodeQuestion, type TraceAnswer, type WholeTrace } from '../../src/operations/path/whole-trace.ts';
import type { ForwardedObjects } from '../../src/policy/verify/forwarding-reference/forwarded-objects.ts';
import type { SimulatedCluster, SimulatedNode } from '../../src/simulate/cluster/simulated-cluster.ts';
import { traceInCluster } from '../../src/simulate/cluster/simulated-trace.ts';

/** Flows of the bridge of a node, if they are not those that its agent wants. */
export type CellBridge = (node: SimulatedNode) => FlowSource;

/** A question has no answer if the ends have no addresses of the family, or if no client outside reaches the Service. */
const unanswered =
  /have no .*address of one family|no client outside the cluster reaches it|is no port of service:|has no address of that family/;

/** Traces a connection over all nodes that it passes. */
export async function tracesOf(
  cluster: SimulatedCluster,
  question: NodeQuestion,
  { bridge = ({ flows }) => flows, via }: { readonly bridge?: CellBridge; readonly via?: string } = {},
): Promise<readonly WholeTrace[]> {
  // A packet without outer addresses leaves for no node.
  const ask = async (node: string, asked: NodeQuestion): Promise<TraceAnswer> =>
    cluster.nodeNames.includes(node)
      ? { answer: await traceInCluster(cluster, node, new URLSearchParams({ ...asked }), bridge) }
      : { failure: `there is no ${node}` };
  try {
    const node = via ?? entryNode(cluster.objects, question)?.node ?? cluster.firstNode(question.from, question.to);
    const first = await ask(node, question);
    return 'failure' in first ? [] : await followTrace(first.answer, ask);
  } catch (thrown) {
    if (thrown instanceof Error && unanswered.test(thrown.message)) return [];
    throw thrown;
  }
}

/** Verdicts of each endpoint: of the objects, of the agents and of the bridges; of paths about which objects decide. */
export function verdictsOf(objects: ForwardedObjects, trace: WholeTrace) {
  const decided = trace.paths.filter(({ segments }) => !segments.some(({ bridge }) => bridge.onward?.mode === 'blocked'));
  return decided.flatMap((path) =>
    (path.endpoints.length > 0 ? path.endpoints : [undefined]).map((endpoint) => {
      const meaning = meaningFor(objects, trace, { ...path, endpoints: endpoint === undefined ? [] : [endpoint] });
      const at = path.segments.map(({ node, bridge }) => `${node}: ${bridge.what} ${bridge.to}, from ${bridge.packet.source}`).join('; ');
      return { endpoint, meaning: meaning?.verdict, why: meaning?.why, desired: path.desired, bridge: path.bridge, at };
    }),
  );
}
