/** Effect of NetworkPolicy on a pod of this node. */
export interface PodPolicyView {
  /** `namespace/name`. */
  readonly name: string;
  readonly addresses: readonly string[];
  readonly ingress: DirectionPolicyView;
  readonly egress: DirectionPolicyView;
}

/**
 * Policy of one direction. `free`: no policy isolates the pod in this direction. `closed`: too little is known, and everything except
 * traffic of its own node is denied (blocked pending policy). `as before`: too little is known, and the bridge keeps the flows that a
 * previous agent installed for the pod. `suspended`: nothing is denied for a limited time.
 */
export interface DirectionPolicyView {
  readonly state: 'free' | 'isolated' | 'closed' | 'as before' | 'suspended';
  /** Reason, for a closed pod; end and reason of the suspension, for a suspended one. */
  readonly why?: string;
  /** Policies, `namespace/name`. */
  readonly isolatedBy: readonly string[];
  readonly rules: readonly PolicyRuleView[];
  /** Number of rules that are not listed. */
  readonly moreRules: number;
}

export interface PolicyRuleView {
  /** `namespace/name spec.ingress[2]`. */
  readonly name: string;
  /** Peers; empty for any. */
  readonly peers: readonly string[];
  readonly morePeers: number;
  /** Ports: `TCP 80`, `UDP 5000-5010`, and `http/TCP` for a name, whose number depends on the peer; empty for any. */
  readonly ports: readonly string[];
}

/** Policy that isolates pods of this node, or that is not fully understood in a namespace that has some. */
export interface NodePolicyView {
  readonly name: string;
  /** Tier and priority of a ClusterNetworkPolicy; absent for a NetworkPolicy. */
  readonly cluster?: ClusterRank;
  /** Number of pods of this node that it isolates; for a ClusterNetworkPolicy, of those that it has rules for. */
  readonly ingress: number;
  readonly egress: number;
  /** Fields that cannot be read, and parts beyond limits, in words; each allows nothing. */
  readonly notUnderstood: readonly string[];
}

/** Place of a ClusterNetworkPolicy in the order of evaluation. */
export interface ClusterRank {
  readonly tier: 'Admin' | 'Baseline';
  readonly priority: number;
}

/** One policy, as this node understands it, and its effect here. */
export interface OnePolicyView {
  /** `namespace/name`, or the name of a ClusterNetworkPolicy. */
  readonly name: string;
  /** Tier and priority, like `NodePolicyView.cluster`. */
  readonly cluster?: ClusterRank;
  readonly generation: number;
  /**
   * Selector in normal form, such as `app in db`; empty if it selects every pod of its namespace, or of the cluster; absent if it
   * contradicts itself or cannot be read, and selects none.
   */
  readonly selects?: string;
  /** Pods of this node that it isolates, in one direction or both. */
  readonly pods: readonly SelectedPodView[];
  /** Rules for ingress; absent if it does not isolate in this direction. */
  readonly ingress?: OneDirectionView;
  readonly egress?: OneDirectionView;
  /** Parts that are not understood, as in `NodePolicyView`. */
  readonly notUnderstood: readonly string[];
}

export interface SelectedPodView {
  /** `namespace/name`. */
  readonly name: string;
  /**
   * State of the pod. `policed`: this policy and the others of the pod apply; `free`: policies are off on this node; other states as in
   * `DirectionPolicyView`.
   */
  readonly state: 'policed' | 'free' | 'closed' | 'suspended' | 'as before';
}

export interface OneDirectionView {
  readonly rules: readonly OneRuleView[];
  /** Number of rules that are not listed. */
  readonly moreRules: number;
}

/** Rule as it is written; an empty list matches nothing. */
export interface OneRuleView {
  /** Path, such as `spec.ingress[2]`. */
  readonly path: string;
  /** Action of a rule of a ClusterNetworkPolicy; a NetworkPolicy only allows. */
  readonly action?: 'Accept' | 'Deny' | 'Pass';
  readonly peers: 'any' | readonly PeerTermView[];
  readonly morePeers: number;
  /** Ports, as in `PolicyRuleView`. */
  readonly ports: 'any' | readonly string[];
}

export interface PeerTermView {
  readonly text: string;
  /**
   * Number of pods of the cluster that match; absent for a block, and if no pod of this node has the rule, because matches are then not
   * computed.
   */
  readonly pods?: number;
  /** Number of addresses of a block; may exceed 2^53. */
  readonly addresses?: string;
}

/** Counters of the flows of a policy rule, since each was installed. */
export interface RuleCounters {
  readonly direction: 'ingress' | 'egress';
  readonly verdict: 'allow' | 'deny';
  /** Rule that allows, `namespace/name spec.ingress[2]`, or the policies that isolate, `namespace/name`, if no rule allows. */
  readonly by: readonly string[];
  /** Number of packets; may exceed 2^53. */
  readonly packets: string;
  readonly bytes: string;
}

/** Verdict on opening a connection, as far as this node decides it. */
export interface ConnectionPolicyView {
  readonly from: string;
  readonly to: string;
  /** Port; absent for all ports. */
  readonly port?: string;
  /** Verdict of the ends that this node decides. `mixed`: it depends on the port or on the address family, or replies may be denied. */
  readonly verdict: 'allow' | 'deny' | 'mixed';
  readonly ends: readonly ConnectionEndView[];
  /** Sentences about parts that are decided elsewhere or not at all. */
  readonly remarks: readonly string[];
}

export interface ConnectionEndView {
  readonly direction: 'ingress' | 'egress';
  /** Pod whose policies decide. */
  readonly pod: string;
  readonly from: string;
  readonly to: string;
  /** Ports, as in `PolicyRuleView.ports`; `any other`: ports that no other entry of the same end and addresses names. */
  readonly ports: string;
  readonly verdict: 'allow' | 'deny';
  readonly why:
    | 'itself'
    | 'own node'
    | 'suspended'
    | 'not isolated'
    | 'closed'
    | 'a rule allows it'
    | 'no rule allows it'
    | 'a cluster rule denies it'
    | 'networks left out';
  /** Rule that allows, or policies that isolate. */
  readonly by: readonly string[];
  /** True if a pod that is denied here gets a refusal; absent if the packet is only dropped. */
  readonly refused?: true;
  /** Change that would result in the other verdict, as a sentence. */
  readonly change: string;
}

/** Suspension of policies for some pods, for a limited time. */
export interface SuspensionView {
  readonly what: 'pod' | 'namespace' | 'node';
  /** Target: `namespace/name` of a pod; empty for the node. */
  readonly name: string;
  readonly reason: string;
  /** Time (RFC 3339). */
  readonly since: string;
  readonly until: string;
  /** Number of pods of this node that it opens now. */
  readonly pods: number;
}

/** Result of a request to suspend or resume policies. */
export interface SuspensionAnswer {
  /** True if there was a suspension of exactly this target; only meaningful for `resume`. */
  readonly was: boolean;
  /** True if the result is stored; false if writing to disk failed, so that an agent that starts later does not know of it. */
  readonly isRemembered: boolean;
  /** Suspension; only for `suspend`. */
  readonly suspension?: SuspensionView;
}
