import type { Ip } from '../net/ip.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Step } from '../pipeline/flow.ts';
import { goto, load, priority } from '../pipeline/flow.ts';
import { type NodeEnvironment, ownAddresses } from './environment.ts';

/**
 * What may send and receive, whatever pods there are: node, world and peers. What they are allowed is decided where a pod is the other
 * end. Pure.
 *
 * Above the flows of pods: what the node itself makes reaches its pods, the closed ones too, for kubelet asks them whether they live. And
 * a pod that a Service leads to itself reaches itself; the packet shows the source that it was given for that.
 */
export function entriesOfOthers(environment: NodeEnvironment): readonly Flow[] {
  const received = (level: number, match: Flow['match']): Flow => ({
    table: 'ingressEntry',
    priority: level,
    match,
    steps: [goto('commit')],
  });
  return [
    ...(['gateway', 'tunnel'] as const).flatMap((kind): Flow[] => [
      { table: 'egressEntry', priority: priority.normal, match: { regs: [reg.source(kind)] }, steps: [goto('route')] },
      received(priority.normal, { regs: [reg.destination(kind)] }),
    ]),
    ...ownAddresses(environment).map((ipSrc) =>
      received(priority.higher, { payload: ipSrc.family, ipSrc, regs: [reg.source('gateway'), reg.destination('pod')] }),
    ),
    received(priority.higher, { ctMarks: [ctMark.hairpin('yes')], regs: [reg.destination('pod')] }),
  ];
}

/** Class of a pod for one direction: a lent number, or that of pods that nobody has decided about. Absent: no policy isolates it. */
type PolicyClass = number | 'closed';

/** Who a local pod is to policy, by its interface. */
export interface SubjectIntent {
  readonly ofPort: number;
  /** Its own, for it always reaches itself. At most one of each family. */
  readonly addresses: readonly Ip[];
  readonly ingress?: PolicyClass;
  readonly egress?: PolicyClass;
  /** New connections to Services a second, where its egress is policed (`compileOpenings`). Absent: any number. */
  readonly openings?: number;
}

/**
 * A pod's flows in the entry tables. Without them it sends nothing and receives nothing, answers included: what a pod that is not decided
 * about yet gets may be meant for one that had its address before. A change of class changes the value of one flow a direction. Pure.
 */
export function compileSubject({ ofPort, addresses, ingress, egress }: SubjectIntent): readonly Flow[] {
  const sender = { inPort: ofPort };
  const classified = (of: PolicyClass, table: 'egressLookup' | 'ingressLookup'): readonly Step[] => [
    load(reg.networkPolicyClass(of)),
    goto(table),
  ];
  return [
    {
      table: 'egressEntry',
      priority: priority.normal,
      match: sender,
      steps: egress === undefined ? [goto('route')] : classified(egress, 'egressLookup'),
    },
    {
      table: 'ingressEntry',
      priority: priority.normal,
      match: { regs: [reg.outPort(ofPort)] },
      steps: ingress === undefined ? [goto('commit')] : classified(ingress, 'ingressLookup'),
    },
    ...(egress === undefined
      ? []
      : addresses.map(
          (ipDst): Flow => ({
            table: 'egressEntry',
            priority: priority.high,
            match: { ...sender, payload: ipDst.family, ipDst },
            steps: [goto('route')],
          }),
        )),
  ];
}
