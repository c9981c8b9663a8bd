/**
 * Decisions of policy on one node, as data: the class of a local pod and the class of the other address give a decision (ranges of ports with a
 * verdict). Every key has one value; entries do not overlap.
 */
export interface PolicyMatrix {
  /** Local pods by `namespace/name`. A pod that is missing is blocked pending policy: nothing is known of it yet. */
  readonly subjects: ReadonlyMap<string, MatrixSubject>;
  /** Addresses of the node itself, as canonical text. Traffic that originates on the node reaches its pods regardless of policies. */
  readonly ownNode: ReadonlySet<string>;
  readonly ingress: DirectionMatrix;
  readonly egress: DirectionMatrix;
}

export type PolicyDirection = 'ingress' | 'egress';
export const policyDirections = ['ingress', 'egress'] as const satisfies readonly PolicyDirection[];

export interface MatrixSubject {
  /** Addresses of the pod, which it may always reach. Canonical text. */
  readonly addresses: readonly string[];
  /** Class for ingress; absent if no policy isolates the pod in this direction. */
  readonly ingress?: SubjectClass;
  readonly egress?: SubjectClass;
}

/** Class of local pods to which the same rules apply. Classes of equal content are the same object; `text` identifies the content. */
export interface SubjectClass {
  /** Number assigned by the engine that made the class; another engine may assign another one. */
  readonly id: number;
  readonly text: string;
  /** Policies that isolate its pods, `namespace/name`, sorted. */
  readonly isolatedBy: readonly string[];
}

/** Class of addresses that the same terms of rules match. `id` as in `SubjectClass`; 0 is that of addresses that no term matches. */
export interface PeerClass {
  readonly id: number;
  /** Canonical texts of the terms. */
  readonly terms: readonly string[];
}

/** Identity of an address: `coarse` for blocks and whole namespaces, `fine` for terms that select by labels or ports of pods. */
export interface PeerIdentity {
  readonly coarse: PeerClass;
  readonly fine: PeerClass;
}

/** Matrix of ingress (the other address is the source) or egress (it is the destination). */
export interface DirectionMatrix {
  /**
   * Identities by network, such as `10.0.0.0/8` or `10.10.0.6/32`. The longest network that contains an address gives its identity. If
   * there is none, no term matches the address.
   */
  readonly identities: ReadonlyMap<string, PeerIdentity>;
  /** Decisions by `relationKey`. The most exact key counts: both parts of the identity, the coarse part, neither. */
  readonly relations: ReadonlyMap<string, PolicyDecision>;
}

export interface PolicyDecision {
  /** Ranges, disjoint, sorted by protocol and port. */
  readonly ranges: readonly DecidedRange[];
  /** Outcome for everything else: other ports, and protocols without ports. */
  readonly otherwise: PolicyOutcome;
}

export interface DecidedRange {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  /** First port. `first` and `last` are included; 0 to 65,535 is the whole protocol. */
  readonly first: number;
  readonly last: number;
  readonly outcome: PolicyOutcome;
}

export interface PolicyOutcome {
  readonly verdict: 'allow' | 'deny';
  /** Rule that allows, `namespace/name spec.ingress[2]`, or the policies that isolate, `namespace/name`. */
  readonly by: readonly string[];
}

export function relationKey(subject: SubjectClass, coarse?: PeerClass, fine?: PeerClass): string {
  if (!coarse) return `${subject.id}`;
  return fine ? `${subject.id} ${coarse.id} ${fine.id}` : `${subject.id} ${coarse.id}`;
}

/** Returns the `id` of the class whose row a `relationKey` names. */
export function classIdOf(key: string): number {
  return Number.parseInt(key, 10);
}

/** Returns the same `relationKey` for another class. */
export function relationKeyOf(subject: SubjectClass, key: string): string {
  return `${subject.id}${key.slice(`${classIdOf(key)}`.length)}`;
}
