import { nothing, type Wanted } from '../desired/host-entries.ts';
import { reg } from '../pipeline/fields.ts';
import type { Flow, Meter, Step } from '../pipeline/flow.ts';
import { priority } from '../pipeline/flow.ts';
import { deniedMeters } from '../pipeline/well-known.ts';
import { deniedFlows } from './compile-verdict.ts';
import type { NodeEnvironment } from './environment.ts';

/** Rate and burst of one pod's denied packets that are copied to the agent. A flooded pod does not reduce the copies of others. */
const shown = { rate: 20, burst: 40 } as const;

/**
 * Compiles flows that copy to the agent what a pod is denied, and what others are denied to send to it: the rows of the verdict for this
 * pod again, above those for all pods, each with a copy to the agent first. They do not change what happens to the packet. Pure.
 */
export function compileDeniedLog(ofPort: number, environment: NodeEnvironment): Wanted {
  const meter: Meter = { id: deniedMeters.offset + ofPort, unit: 'packets', ...shown };
  const copy: Step = { do: 'toAgent', reason: 'denied', meter: meter.id };
  const { egress, ingress } = deniedFlows(environment);
  const above = (flow: Flow): number => flow.priority + priority.higher - priority.normal;
  return {
    ...nothing,
    meters: [meter],
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
