import type { Ip } from '../../base/net/ip.ts';
import { macFromBytes } from '../../base/net/mac.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Step } from '../pipeline/flow.ts';
import { goto, load, priority, resubmit, resubmitAsOpened } from '../pipeline/flow.ts';
import type { PodPattern, PodPlace } from '../pipeline/flow-pattern.ts';
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
    ...(typeof ingress === 'number' ? [answersFrom(ofPort, ingress)] : []),
    ...(typeof egress === 'number' ? [answersTo(ofPort, egress)] : []),
  ];
}

/** What has an original tuple, as the switch sees to it. */
export const answer = { rpl: '+', trk: '+' } as const;

/** Class pairs of which the patterns are kept: a node has a hundred pods or two, most of which share theirs with others. */
const PATTERNS_MAX = 128;

/** No flow of a class looks at a MAC. */
const anyMac = macFromBytes(new Uint8Array(6));

/** The flows of `compileSubject` by class, as patterns: of pods of the same classes they are encoded once. */
export class SubjectPatterns {
  readonly #known = new Map<string, PodPattern>();

  of({ ofPort, addresses, ingress, egress }: SubjectIntent): { readonly pattern: PodPattern; readonly place: PodPlace } {
    return { pattern: this.#patternOf(ingress, egress), place: { ofPort, addresses, mac: anyMac } };
  }

  #patternOf(ingress: PolicyClass | undefined, egress: PolicyClass | undefined): PodPattern {
    const key = `${ingress}/${egress}`;
    const known = this.#known.get(key);
    if (known) return known;
    const classes = { ...(ingress === undefined ? {} : { ingress }), ...(egress === undefined ? {} : { egress }) };
    const pattern: PodPattern = ({ ofPort, addresses }) => compileSubject({ ofPort, addresses, ...classes });
    this.#known.set(key, pattern);
    const [oldest] = this.#known.keys();
    if (this.#known.size > PATTERNS_MAX && oldest !== undefined) this.#known.delete(oldest);
    return pattern;
  }
}

/**
 * Answers that nobody has to acknowledge are looked up as the packet was that opened the connection: where the server is, as what it
 * received. A pod that nobody has decided about yet has nobody to answer but its node.
 */
function answersFrom(ofPort: number, ingress: number): Flow {
  return {
    table: 'egressEntry',
    priority: priority.higher,
    match: { inPort: ofPort, ctState: answer, regs: [reg.answerFrom('yes')] },
    steps: [
      load(reg.answerFrom('asked')),
      load(reg.networkPolicyClass(ingress)),
      resubmitAsOpened('sourceIdentity'),
      goto('ingressLookup'),
    ],
  };
}

/** And where the client is, as what it sent: but not what came in its name by the node, which was judged when it left the client. */
function answersTo(ofPort: number, egress: number): Flow {
  return {
    table: 'ingressEntry',
    priority: priority.highest,
    match: { ctState: answer, ctMarks: [ctMark.source('pod')], regs: [reg.outPort(ofPort), reg.answerTo('yes')] },
    steps: [
      load(reg.answerTo('asked')),
      load(reg.networkPolicyClass(egress)),
      resubmitAsOpened('destinationIdentity'),
      resubmit('egressNetworkPolicy'),
    ],
  };
}
