import type { Ip } from '../../base/net/ip.ts';
import { macFromBytes } from '../../base/net/mac.ts';
import { ctMark, reg } from '../pipeline/fields.ts';
import type { Flow, Step } from '../pipeline/flow.ts';
import { drop, goto, load, priority, resubmit, resubmitAsOpened } from '../pipeline/flow.ts';
import type { PodPattern, PodPlace } from '../pipeline/flow-pattern.ts';
import { type NodeEnvironment, ownAddresses } from './environment.ts';

/**
 * Compiles the entry flows of node, external clients and peers, independent of pods. Policy is evaluated where a pod is the other end.
 * Pure.
 *
 * These are above the flows of pods: packets of the node itself reach its pods, including those blocked pending policy, because kubelet
 * probes them. A pod to which a Service forwards its own connection reaches itself; the packet has the source that it was given for that.
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

/** Numbers of a pod's classes of cluster policies for one direction; absent in tiers without rules for the pod. */
export interface ClusterClassNumbers {
  readonly admin?: number;
  readonly baseline?: number;
}

/** Class of a pod for one direction: an allocated number, or `closed` for pods blocked pending policy. Absent: no policy isolates it. */
type PolicyClass = number | 'closed';

/** Local pod as policy sees it, identified by its interface. */
export interface SubjectIntent {
  readonly ofPort: number;
  /** Its own addresses, since a pod always reaches itself. At most one of each family. */
  readonly addresses: readonly Ip[];
  readonly ingress?: PolicyClass;
  readonly egress?: PolicyClass;
  /** Absent: no cluster policy has rules for the pod in this direction. */
  readonly cluster?: { readonly ingress?: ClusterClassNumbers; readonly egress?: ClusterClassNumbers };
  /** Maximum number of new connections to Services per second, if its egress is isolated (`compileOpenings`). Absent: no limit. */
  readonly openings?: number;
}

/**
 * Compiles a pod's flows in the entry tables. Without them it sends and receives nothing, not even replies: packets for a pod whose policy
 * is not computed yet may be meant for a previous pod with its address. A change of class changes the value of one flow per direction.
 * Pure.
 */
export function compileSubject({ ofPort, addresses, ingress, egress, cluster = {} }: SubjectIntent): readonly Flow[] {
  const sender = { inPort: ofPort };
  const [into, out] = [classesOf(ingress, cluster.ingress), classesOf(egress, cluster.egress)];
  return [
    {
      table: 'egressEntry',
      priority: priority.normal,
      match: sender,
      steps: out ? [...out.loads, goto('egressLookup')] : [goto('route')],
    },
    {
      table: 'ingressEntry',
      priority: priority.normal,
      match: { regs: [reg.outPort(ofPort)] },
      steps: into ? [...into.loads, goto('ingressLookup')] : [goto('commit')],
    },
    ...(out
      ? addresses.map(
          (ipDst): Flow => ({
            table: 'egressEntry',
            priority: priority.high,
            match: { ...sender, payload: ipDst.family, ipDst },
            steps: [goto('route')],
          }),
        )
      : []),
    ...(egress !== 'closed' ? toItself(ofPort, addresses, cluster.egress) : []),
    ...(ingress !== 'closed' ? fromItself(ofPort, cluster.ingress) : []),
    ...(into && ingress !== 'closed' ? [answersFrom(ofPort, into)] : []),
    ...(out && egress !== 'closed' ? [answersTo(ofPort, out)] : []),
  ];
}

/** Steps that load the classes of a pod for one direction, and its first tier with rules. */
interface LoadedClasses {
  readonly loads: readonly Step[];
  readonly first: 'admin' | 'networkPolicy' | 'baseline';
}

/** Returns the loads of all classes; undefined if no policy applies. A pod without cluster policies loads the class of NetworkPolicies only. */
function classesOf(own: PolicyClass | undefined, cluster: ClusterClassNumbers | undefined): LoadedClasses | undefined {
  if (!cluster || own === 'closed')
    return own === undefined ? undefined : { loads: [load(reg.networkPolicyClass(own))], first: 'networkPolicy' };
  const first = (cluster.admin ?? 0) > 0 ? 'admin' : own === undefined ? 'baseline' : 'networkPolicy';
  return { loads: [classesLoad(own ?? 0, cluster), beginWithAdmin], first };
}

const beginWithAdmin = load(reg.clusterPolicies('yes'));

/** Returns the load of the classes of all tiers in one direction. */
function classesLoad(own: number, { admin = 0, baseline = 0 }: ClusterClassNumbers): Step {
  const marks = [reg.adminClass(admin), reg.networkPolicyClass(own), reg.baselineClass(baseline)];
  return load(reg.policyClasses(marks.reduce((sum, { value }) => sum + value, 0)));
}

/** Flows for packets that a Service forwarded to the pod that sent them: cluster policies decide, NetworkPolicies do not. */
function toItself(ofPort: number, addresses: readonly Ip[], cluster: ClusterClassNumbers | undefined): readonly Flow[] {
  if (!cluster) return [];
  return addresses.map((ipDst) => ({
    table: 'egressEntry',
    priority: priority.aboveHigh,
    match: { inPort: ofPort, payload: ipDst.family, ipDst, ctMarks: [ctMark.service('yes')], regs: [reg.verdict('none')] },
    steps: [classesLoad(0, cluster), beginWithAdmin, goto('egressLookup')],
  }));
}

/**
 * Flows for the same packets where the pod receives them. Their source is translated by then, so the identity is that of the original
 * tuple. An invalid packet shows none, and is dropped.
 */
function fromItself(ofPort: number, cluster: ClusterClassNumbers | undefined): readonly Flow[] {
  if (!cluster) return [];
  const flow = (inv: '+' | '-', steps: readonly Step[]): Flow => ({
    table: 'ingressEntry',
    priority: priority.highest,
    match: { ctState: { inv, trk: '+' }, ctMarks: [ctMark.hairpin('yes')], regs: [reg.outPort(ofPort), reg.verdict('none')] },
    steps,
  });
  return [flow('-', [classesLoad(0, cluster), resubmitAsOpened('sourceIdentity'), goto('ingressAdmin')]), flow('+', drop)];
}

/** Match of packets that have an original tuple, which OVS guarantees. */
export const answer = { rpl: '+', trk: '+' } as const;

/** Maximum number of cached patterns of class pairs: a node has one or two hundred pods, most of which share theirs with others. */
const PATTERNS_MAX = 128;

/** Placeholder: no flow of a class matches a MAC. */
const anyMac = macFromBytes(new Uint8Array(6));

/** Flows of `compileSubject` by class, as patterns: encoded once for pods of the same classes. */
export class SubjectPatterns {
  readonly #known = new Map<string, PodPattern>();

  of({ ofPort, addresses, ...intent }: SubjectIntent): { readonly pattern: PodPattern; readonly place: PodPlace } {
    return { pattern: this.#patternOf(intent), place: { ofPort, addresses, mac: anyMac } };
  }

  #patternOf({ ingress, egress, cluster = {} }: Pick<SubjectIntent, 'ingress' | 'egress' | 'cluster'>): PodPattern {
    const ofTiers = [cluster.ingress, cluster.egress].map((each) => `${each?.admin} ${each?.baseline}`);
    const key = [ingress, egress, ...ofTiers].join('/');
    const known = this.#known.get(key);
    if (known) return known;
    const classes = { ...(ingress === undefined ? {} : { ingress }), ...(egress === undefined ? {} : { egress }), cluster };
    const pattern: PodPattern = ({ ofPort, addresses }) => compileSubject({ ofPort, addresses, ...classes });
    this.#known.set(key, pattern);
    const [oldest] = this.#known.keys();
    if (this.#known.size > PATTERNS_MAX && oldest !== undefined) this.#known.delete(oldest);
    return pattern;
  }
}

/**
 * Flow for replies that need no acknowledgement. They are evaluated like the packet that opened the connection: on the server's node, like
 * the packet it received. A pod blocked pending policy can only reply to its node.
 */
function answersFrom(ofPort: number, { loads }: LoadedClasses): Flow {
  return {
    table: 'egressEntry',
    priority: priority.higher,
    match: { inPort: ofPort, ctState: answer, regs: [reg.answerFrom('yes')] },
    steps: [load(reg.answerFrom('asked')), ...loads, resubmitAsOpened('sourceIdentity'), goto('ingressLookup')],
  };
}

const egressTables = { admin: 'egressAdmin', networkPolicy: 'egressNetworkPolicy', baseline: 'egressBaseline' } as const;

/**
 * The same on the client's node, like the packet it sent; except for packets that came in its name through the node, which were evaluated
 * when they left the client.
 */
function answersTo(ofPort: number, { loads, first }: LoadedClasses): Flow {
  return {
    table: 'ingressEntry',
    priority: priority.highest,
    match: { ctState: answer, ctMarks: [ctMark.source('pod')], regs: [reg.outPort(ofPort), reg.answerTo('yes')] },
    steps: [load(reg.answerTo('asked')), ...loads, resubmitAsOpened('destinationIdentity'), resubmit(egressTables[first])],
  };
}
