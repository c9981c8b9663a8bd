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

/** Tiers of policies, in the order in which they are evaluated. `networkPolicy` is final for the pods that it isolates. */
export type PolicyTier = 'admin' | 'networkPolicy' | 'baseline';
export const policyTiers = ['admin', 'networkPolicy', 'baseline'] as const satisfies readonly PolicyTier[];

/** Tiers of ClusterNetworkPolicies. */
export type ClusterTier = Exclude<PolicyTier, 'networkPolicy'>;
export const clusterTiers = ['admin', 'baseline'] as const satisfies readonly ClusterTier[];

export interface MatrixSubject {
  /** Addresses of the pod, which it may always reach. Canonical text. */
  readonly addresses: readonly string[];
  /** Class of NetworkPolicies for ingress; absent if none isolates the pod in this direction. */
  readonly ingress?: SubjectClass;
  readonly egress?: SubjectClass;
  /** Classes of cluster policies; absent if none has rules for the pod. */
  readonly cluster?: Readonly<Partial<Record<PolicyDirection, ClusterClasses>>>;
}

/** Classes of a pod in one direction, by tier; a tier without rules for the pod is absent. */
export type ClusterClasses = Readonly<Partial<Record<ClusterTier, SubjectClass>>>;

/** Returns the class of a pod in one tier; undefined if it has no rules there. */
export function classIn(subject: MatrixSubject | undefined, direction: PolicyDirection, tier: PolicyTier): SubjectClass | undefined {
  return tier === 'networkPolicy' ? subject?.[direction] : subject?.cluster?.[direction]?.[tier];
}

/** Returns the classes of a pod in one direction, in the order of the tiers. */
export function classesIn(subject: MatrixSubject | undefined, direction: PolicyDirection): readonly SubjectClass[] {
  return subject ? policyTiers.flatMap((tier) => classIn(subject, direction, tier) ?? []) : [];
}

/** Reports whether two pods have the same classes in one direction. */
export function haveSameClasses(a: MatrixSubject | undefined, b: MatrixSubject | undefined, direction: PolicyDirection): boolean {
  return policyTiers.every((tier) => classIn(a, direction, tier) === classIn(b, direction, tier));
}

/** Class of local pods to which the same rules apply. Classes of equal content are the same object; `text` identifies the content. */
export interface SubjectClass {
  /** Number assigned by the engine that made the class; another engine may assign another one. */
  readonly id: number;
  readonly text: string;
  /** Tier of cluster policies; absent: NetworkPolicies. */
  readonly tier?: ClusterTier;
  /** Policies that isolate its pods, `namespace/name`, sorted; names of cluster policies in their order. */
  readonly isolatedBy: readonly string[];
}

/** Class of addresses that the same terms of rules match. `id` as in `SubjectClass`; 0 is that of addresses that no term matches. */
export interface PeerClass {
  readonly id: number;
  /** Canonical texts of the terms. */
  readonly terms: readonly string[];
}

/**
 * Identity of addresses that cannot be distinguished, because numbers have run out: each class with a rule that denies or passes denies
 * them; other classes treat them like addresses that no term matches.
 */
export const unnumbered: PeerClass = { id: Number.MIN_SAFE_INTEGER, terms: [] };

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
  /** Tier of the class that decides; absent: NetworkPolicies. */
  readonly tier?: ClusterTier;
}

export interface DecidedRange {
  readonly protocol: 'TCP' | 'UDP' | 'SCTP';
  /** First port. `first` and `last` are included; 0 to 65,535 is the whole protocol. */
  readonly first: number;
  readonly last: number;
  readonly outcome: PolicyOutcome;
}

export interface PolicyOutcome {
  /** `next`: the next tier decides. */
  readonly verdict: 'allow' | 'deny' | 'next';
  /** Rule that allows, `namespace/name spec.ingress[2]`, or the policies that isolate, `namespace/name`. Empty for `next`, and if no rule of the last tier matches. */
  readonly by: readonly string[];
  /** Answer to the sender of a denied packet that opens a connection; absent: as the node is configured. Only if the verdict is `deny`. */
  readonly denial?: 'reject' | 'drop';
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
