/**
 * What policy decides on one node, as data: who (class of a local pod) with whom (class of the other address) gives a decision (ranges of
 * ports with a verdict). Every key has one value; nothing overlaps.
 */
export interface PolicyMatrix {
  /** Local pods by `namespace/name`. A pod that is not here is closed: nothing is known of it yet. */
  readonly subjects: ReadonlyMap<string, MatrixSubject>;
  /** Addresses of the node itself: what it makes reaches its pods, whatever policies say. Canonical text. */
  readonly ownNode: ReadonlySet<string>;
  readonly ingress: DirectionMatrix;
  readonly egress: DirectionMatrix;
}

export type PolicyDirection = 'ingress' | 'egress';
export const policyDirections = ['ingress', 'egress'] as const satisfies readonly PolicyDirection[];

export interface MatrixSubject {
  /** Its own addresses, with which it may always talk. Canonical text. */
  readonly addresses: readonly string[];
  /** Absent: no policy isolates the pod in this direction. */
  readonly ingress?: SubjectClass;
  readonly egress?: SubjectClass;
}

/** Local pods to which the same rules apply. Classes of equal content are the same object, and content is told by `text`. */
export interface SubjectClass {
  /** Lent by the engine that made it; not the same in another one. */
  readonly id: number;
  readonly text: string;
  /** Policies, `namespace/name`, sorted. */
  readonly isolatedBy: readonly string[];
}

/** Addresses that the same terms of rules hold. Identity as of `SubjectClass`; 0 is that of addresses that no term holds. */
export interface PeerClass {
  readonly id: number;
  /** Canonical texts. */
  readonly terms: readonly string[];
}

/** `coarse` are blocks and whole namespaces, `fine` are terms that look at a pod's labels or ports. */
export interface PeerIdentity {
  readonly coarse: PeerClass;
  readonly fine: PeerClass;
}

/** Of ingress (the other address is the source) or egress (the destination). */
export interface DirectionMatrix {
  /** By network, `10.0.0.0/8` or `10.10.0.6/32`. The longest that holds an address says its identity; none: no term holds it. */
  readonly identities: ReadonlyMap<string, PeerIdentity>;
  /** By `relationKey`, the most exact one that there is: both parts of the identity, the coarse part, none. */
  readonly relations: ReadonlyMap<string, PolicyDecision>;
}

export interface PolicyDecision {
  /** Disjoint, sorted by protocol and port. */
  readonly ranges: readonly DecidedRange[];
  /** For whatever is in none of them: other ports, and protocols without ports. */
  readonly otherwise: PolicyOutcome;
}

export interface DecidedRange {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  /** Both ends belong to it; 0 to 65,535 is the whole protocol. */
  readonly first: number;
  readonly last: number;
  readonly outcome: PolicyOutcome;
}

export interface PolicyOutcome {
  readonly verdict: 'allow' | 'deny';
  /** The rule that allows, `namespace/name spec.ingress[2]`; or the policies that isolate, `namespace/name`. */
  readonly by: readonly string[];
}

export function relationKey(subject: SubjectClass, coarse?: PeerClass, fine?: PeerClass): string {
  if (!coarse) return `${subject.id}`;
  return fine ? `${subject.id} ${coarse.id} ${fine.id}` : `${subject.id} ${coarse.id}`;
}

/** The class, by its `id`, whose row a `relationKey` names. */
export function classIdOf(key: string): number {
  return Number.parseInt(key, 10);
}

/** What a `relationKey` names, of another class. */
export function relationKeyOf(subject: SubjectClass, key: string): string {
  return `${subject.id}${key.slice(`${classIdOf(key)}`.length)}`;
}
