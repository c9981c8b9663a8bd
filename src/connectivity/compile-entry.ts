import { reg } from '../pipeline/fields.ts';
import type { Flow } from '../pipeline/flow.ts';
import { goto, priority } from '../pipeline/flow.ts';

/**
 * What may send and receive, whatever pods there are: node, world and peers. What they are allowed is decided where a pod is the other
 * end. Pure.
 */
export function entriesOfOthers(): readonly Flow[] {
  return (['gateway', 'tunnel'] as const).flatMap((kind): Flow[] => [
    { table: 'egressEntry', priority: priority.normal, match: { regs: [reg.source(kind)] }, steps: [goto('route')] },
    { table: 'ingressEntry', priority: priority.normal, match: { regs: [reg.destination(kind)] }, steps: [goto('commit')] },
  ]);
}

/**
 * A pod that no policy concerns. Without these two flows a pod sends nothing and receives nothing, answers included: what a pod is not
 * decided about yet gets may be meant for one that had its address before.
 */
export function freePod(ofPort: number): readonly Flow[] {
  return [
    { table: 'egressEntry', priority: priority.normal, match: { inPort: ofPort }, steps: [goto('route')] },
    { table: 'ingressEntry', priority: priority.normal, match: { regs: [reg.outPort(ofPort)] }, steps: [goto('commit')] },
  ];
}
