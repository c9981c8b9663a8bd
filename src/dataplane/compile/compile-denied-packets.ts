import { nothing, type Wanted } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { reg } from '../pipeline/fields.ts';
import { type Flow, type Meter, meter, priority, type Step } from '../pipeline/flow.ts';
import { type EntryPattern, shareFlow } from '../pipeline/flow-pattern.ts';
import { deniedMeters, nodeMeters, refusalMeters } from '../pipeline/well-known.ts';
import { deniedFlows } from './compile-verdict.ts';
import { familiesOf, type NodeEnvironment } from './environment.ts';

/** Rate and burst of one pod's denied packets that are copied to the agent. A flooded pod does not reduce the copies of others. */
const shown = { rate: 20, burst: 40 } as const;

/**
 * Compiles flows that copy to the agent what a pod is denied, and what others are denied to send to it: the rows of the verdict for this
 * pod again, above those for all pods, each with a copy to the agent first. They do not change what happens to the packet. Pure.
 */
export function compileDeniedLog(ofPort: number, environment: NodeEnvironment): Wanted {
  const own: Meter = { id: deniedMeters.offset + ofPort, unit: 'packets', ...shown };
  const copy: Step = { do: 'toAgent', reason: 'denied', meter: own.id };
  const { egress, ingress } = deniedFlows(environment);
  const above = (flow: Flow): number => flow.priority + priority.higher - priority.normal;
  return {
    ...nothing,
    meters: [own],
    flows: [
      ...egress.map((flow) => ({ ...flow, priority: above(flow), match: { ...flow.match, inPort: ofPort }, steps: [copy, ...flow.steps] })),
      ...ingress.map((flow) => ({
        ...flow,
        priority: above(flow),
        match: { ...flow.match, regs: [...(flow.match.regs ?? []), reg.outPort(ofPort)] },
        steps: [copy, ...flow.steps],
      })),
    ],
  };
}

/** Owner of the meters, and of the flows that use them. */
export const refusalsOwner: Owner = ownerOf('node', 'refusals');

/** Packets per second and burst of one share of senders, and of the node. */
const refusedOfShare = { rate: 100, burst: 200 } as const;
const refusedOfNode = { rate: 1_000, burst: 2_000 } as const;

/** Bytes of a packet that the agent needs: an error quotes less (RFC 1812 section 4.3.2.3, RFC 4443 section 3.1). */
const SHOWN_BYTES = 1_294;

/**
 * Compiles flows that send denied packets to the agent, which answers them (`PolicyRefusals`). Senders whose addresses have the same last
 * six bits share a meter: one of them cannot use up the answers of all. A further meter bounds the work of the agent.
 *
 * A separate owner: OVS without meters must not refuse the node's other flows. Without these flows table `refusals` drops. Pure.
 */
export function compileRefusals(environment: NodeEnvironment): Wanted {
  const { first, count } = refusalMeters;
  const shares = Array.from({ length: count }, (_, value) => ({ value, id: first + value }));
  const node: Meter = { id: nodeMeters.refusals, unit: 'packets', ...refusedOfNode };
  return {
    ...nothing,
    meters: [node, ...shares.map(({ id }): Meter => ({ id, unit: 'packets', ...refusedOfShare }))],
    flows: familiesOf(environment).flatMap((payload) => shares.map(({ id, value }) => shareFlow(refusalOfShare, payload, value, id))),
  };
}

const refusalOfShare: EntryPattern = ({ ip: { family }, numbers: [value, id] }) => ({
  table: 'refusals',
  priority: priority.normal,
  match: { payload: family, ipSrcEnd: { value, mask: refusalMeters.count - 1 } },
  steps: [meter(id), { do: 'toAgent', reason: 'refused', meter: nodeMeters.refusals, bytes: SHOWN_BYTES }],
});
