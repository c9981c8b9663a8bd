import type { NodeTrace } from '../../api/trace.ts';
import type { BridgeKey, BridgeValue } from '../../dataplane/targets/bridge/bridge-entry.ts';
import { compileInputs } from '../../operations/compiler-inputs/compile-inputs.ts';
import type { NodeInputs } from '../../operations/compiler-inputs/node-inputs.ts';
import { hopNamesOf, namesOf, onwardOf, podNameOf } from './bundled-node.ts';
import { FlowLayer } from './flow-layer.ts';
import { type TraceableNode, tracedOn } from './simulated-trace.ts';

/** Parts of a node's history by which packets of a past time are traced. */
interface PastParts {
  readonly node: string;
  readonly inputs: NodeInputs;
  /** Entries of policies, which have no inputs. */
  readonly policyEntries: Iterable<readonly [BridgeKey, BridgeValue]>;
  /** Pods of other nodes, `namespace/name`, with their addresses at that time. */
  readonly pods: ReadonlyMap<string, readonly string[]>;
}

/** Node at a past time, with the flows that its agent wanted. Nothing is known of those that Open vSwitch had. */
export class RecordedNode {
  readonly #node: TraceableNode;

  constructor({ node, inputs, policyEntries, pods }: PastParts) {
    const desired = new FlowLayer();
    const { entries, owners } = compileInputs(inputs);
    for (const [key, value] of [...entries, ...policyEntries]) desired.add(key, value);
    for (const owner of owners) desired.name(owner);
    this.#node = {
      name: node,
      environment: inputs.environment,
      names: namesOf({ node, inputs, pods }),
      hopNames: hopNamesOf(inputs, pods, desired),
      bridge: desired,
      desired,
      onward: onwardOf(node, inputs),
    };
  }

  /** Traces a packet, like the path `/v1/trace` of the agent; `bridge` equals `desired`. @throws SeineError `INVALID_INPUT` */
  async trace(query: URLSearchParams): Promise<NodeTrace> {
    return await tracedOn(this.#node, query);
  }
}

/** Pods of a node, `namespace/name`, with their addresses. */
export function podsIn({ pods }: NodeInputs): ReadonlyMap<string, readonly string[]> {
  return new Map(pods.map(({ owner, intent }) => [podNameOf(owner), intent.addresses.map(({ text }) => text)]));
}
