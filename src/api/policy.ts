/** What NetworkPolicy does with a pod of this node. */
export interface PodPolicyView {
  /** `namespace/name`. */
  readonly name: string;
  readonly addresses: readonly string[];
  readonly ingress: DirectionPolicyView;
  readonly egress: DirectionPolicyView;
}

/**
 * `free`: no policy isolates the pod in this direction. `closed`: too little is known, and all but its own node is denied. `as before`:
 * too little is known, and the bridge keeps what an earlier agent wanted for the pod. `suspended`: nothing is denied for a while.
 */
export interface DirectionPolicyView {
  readonly state: 'free' | 'isolated' | 'closed' | 'as before' | 'suspended';
  /** Of what is closed; of what is suspended until when, and the reason that was given. */
  readonly why?: string;
  /** `namespace/name` of policies. */
  readonly isolatedBy: readonly string[];
  readonly rules: readonly PolicyRuleView[];
  /** Rules that are not listed. */
  readonly moreRules: number;
}

export interface PolicyRuleView {
  /** `namespace/name spec.ingress[2]`. */
  readonly name: string;
  /** Empty: any. */
  readonly peers: readonly string[];
  readonly morePeers: number;
  /** `TCP 80`, `UDP 5000-5010`, and for a name `http/TCP`, whose number each peer says; empty: any. */
  readonly ports: readonly string[];
}

/** A policy that isolates pods of this node, or that is not fully understood in a namespace that has some. */
export interface NodePolicyView {
  readonly name: string;
  /** How many pods of this node it isolates. */
  readonly ingress: number;
  readonly egress: number;
  /** Fields that cannot be read and what is beyond limits, in words; each allows nothing. */
  readonly notUnderstood: readonly string[];
}

/** One policy, as this node understands it and with what it does here. */
export interface OnePolicyView {
  /** `namespace/name`. */
  readonly name: string;
  readonly generation: number;
  /** Its selector in normal form, `app in db`; empty: every pod of its namespace; absent: it contradicts itself, and selects none. */
  readonly selects?: string;
  /** Pods of this node that it isolates, in one direction or both. */
  readonly pods: readonly SelectedPodView[];
  /** Absent: it does not isolate in this direction. */
  readonly ingress?: OneDirectionView;
  readonly egress?: OneDirectionView;
  /** As in `NodePolicyView`. */
  readonly notUnderstood: readonly string[];
}

export interface SelectedPodView {
  /** `namespace/name`. */
  readonly name: string;
  /** `policed`: this policy and the others of the pod hold; `free`: policies are off on this node; else as in `DirectionPolicyView`. */
  readonly state: 'policed' | 'free' | 'closed' | 'suspended' | 'as before';
}

export interface OneDirectionView {
  readonly rules: readonly OneRuleView[];
  /** Rules that are not listed. */
  readonly moreRules: number;
}

/** A rule as it is written; an empty list matches nothing. */
export interface OneRuleView {
  /** `spec.ingress[2]`. */
  readonly path: string;
  readonly peers: 'any' | readonly PeerTermView[];
  readonly morePeers: number;
  /** As in `PolicyRuleView`. */
  readonly ports: 'any' | readonly string[];
}

export interface PeerTermView {
  readonly text: string;
  /** Pods of the cluster in it; absent for a block, and where no pod of this node has the rule: it is not looked for them then. */
  readonly pods?: number;
  /** Addresses of a block; may exceed 2^53. */
  readonly addresses?: string;
}

/** What flows of policy's rules have counted, since each is on the switch. */
export interface RuleCounters {
  readonly direction: 'ingress' | 'egress';
  readonly verdict: 'allow' | 'deny';
  /** The rule that allows, `namespace/name spec.ingress[2]`; or the policies that isolate, `namespace/name`, where no rule allows. */
  readonly by: readonly string[];
  /** May exceed 2^53. */
  readonly packets: string;
  readonly bytes: string;
}

/** Whether a connection may be opened, as far as this node decides that. */
export interface ConnectionPolicyView {
  readonly from: string;
  readonly to: string;
  /** Absent: all ports. */
  readonly port?: string;
  /** Of the ends that this node decides; `mixed`: it depends on the port or on the family of addresses, or answers may be denied. */
  readonly verdict: 'allow' | 'deny' | 'mixed';
  readonly ends: readonly ConnectionEndView[];
  /** Sentences about what is decided elsewhere or not at all. */
  readonly remarks: readonly string[];
}

export interface ConnectionEndView {
  readonly direction: 'ingress' | 'egress';
  /** The pod whose policies decide. */
  readonly pod: string;
  readonly from: string;
  readonly to: string;
  /** As in `PolicyRuleView.ports`; `any other`: what no other entry of the same end and addresses names. */
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
    | 'networks left out';
  /** The rule that allows, or the policies that isolate. */
  readonly by: readonly string[];
  /** What would have to be otherwise for the other verdict, in a sentence. */
  readonly change: string;
}

/** Policies that do nothing to some pods for a while. */
export interface SuspensionView {
  readonly what: 'pod' | 'namespace' | 'node';
  /** `namespace/name` of a pod; empty for the node. */
  readonly name: string;
  readonly reason: string;
  /** RFC 3339. */
  readonly since: string;
  readonly until: string;
  /** How many pods of this node it opens now. */
  readonly pods: number;
}

/** What became of a request to suspend policies, or to let them hold again. */
export interface SuspensionAnswer {
  /** Of `resume`: whether there was one of exactly this target. */
  readonly was: boolean;
  /** False: the disk refused, and an agent that starts does not know of it. */
  readonly isRemembered: boolean;
  /** Of `suspend`. */
  readonly suspension?: SuspensionView;
}
