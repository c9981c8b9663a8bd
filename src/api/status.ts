import type { PartName } from './entry.ts';
import type { Failure } from './failure.ts';
import type { SuspensionView } from './policy.ts';
import type { HealthReport } from './problem.ts';

/** Resource of the Kubernetes API that the agent watches. */
export interface SourceStatus {
  readonly kind: string;
  /** True if the API server has confirmed it since the agent started. Until then its objects may be those stored by a previous agent. */
  readonly synced: boolean;
  /**
   * Reliability of its objects: in sync with the API server, or the reason why not. `refused`: the agent may not read it; `gone`: the API
   * server has no such resource; `behind`: the API server has an older state than was seen before; `failing`: no reply. Absent from agents
   * up to 0.2.0.
   */
  readonly state?: 'in step' | 'not confirmed' | 'held' | 'refused' | 'gone' | 'behind' | 'failing';
  /** Current activity, in words. */
  readonly doing: string;
  readonly objects: number;
  /** Numbers of objects if a list lacked so many that their removal is delayed until a second list confirms it. */
  readonly held?: { readonly known: number; readonly missing: number };
  /** Number of failures in a row. */
  readonly failures: number;
  readonly lastError?: Failure;
  /** Objects that cannot be read, with the reason; only the first ones. */
  readonly invalid: readonly { readonly name: string; readonly message: string }[];
}

/** Connection that the agent keeps open. */
export interface ConnectionStatus {
  readonly name: 'ovsdb' | 'openflow' | 'packetIn';
  readonly up: boolean;
  /** Number of times it was established since the agent started. */
  readonly connects: number;
  readonly counters: Readonly<Record<string, number>>;
  readonly lastError?: Failure;
}

/** Owner whose desired state a target refuses. */
interface RefusedOwner {
  readonly owner: string;
  readonly error: Failure;
}

/** API object that is not served or only in part, because a node must not do what it specifies. */
interface ObjectedObject {
  readonly kind: string;
  /** Name: `namespace/name`, or `name`. */
  readonly name: string;
  readonly reasons: readonly string[];
}

/** Target of the node, and its progress towards the desired state. */
export interface PartStatus {
  readonly part: PartName;
  /** Number of desired entries. */
  readonly wanted: number;
  /** Number of entries in sync, as far as the agent knows; null while it must check again. */
  readonly held: number | null;
  /** Revision of the desired state, incremented by every change. */
  readonly revision: number;
  readonly realizedRevision: number;
  /** Entries repaired since the agent started, after foreign changes or a restart of Open vSwitch. */
  readonly drift: number;
  /** Owners whose desired state is refused; only the first ones. */
  readonly refused: readonly RefusedOwner[];
  /** Number of all such owners. Absent, like the two members below, from agents up to 0.2.0. */
  readonly refusedCount?: number;
  /** Number of entries changed by another program that were found and not repaired yet. */
  readonly repairing?: number;
  /** Seconds for which a desired entry has been missing; absent if all are present. */
  readonly behindSeconds?: number;
  /** Number of entries that another program keeps changing; they are repaired with back-off. */
  readonly contested: number;
  readonly lastError?: Failure;
}

export interface PoolStatus {
  readonly cidr: string;
  readonly size: number;
  readonly allocated: number;
  /** Number of addresses released by their pods whose absence is not proven yet. */
  readonly quarantined: number;
}

/** Effect of NetworkPolicies on this node. */
export interface NetworkPolicyStatus {
  /** Agents up to 0.3.0 do not enforce policies, and do not report pods. */
  readonly enforcement: 'enforced' | 'not enforced';
  /** Mode of this node; absent if it is not known yet. */
  readonly mode?: 'enforce' | 'audit' | 'off';
  /** `reject`: denied pods get a refusal, where neither a namespace nor a policy states otherwise; absent: denied packets are only dropped. */
  readonly denied?: 'reject';
  /** Number of policies in the cluster. */
  readonly objects: number;
  /** Number of policies that isolate pods of this node. */
  readonly selecting?: number;
  /** Number of ClusterNetworkPolicies, and of those with rules for pods of this node; absent if there are none. */
  readonly clusterObjects?: number;
  readonly clusterSelecting?: number;
  /** Number of pods of this node that policies of any tier apply to, and the closed pods with the reason. */
  readonly isolatedPods?: number;
  readonly closedPods?: readonly ClosedPod[];
  /** Suspensions of policies for some pods. */
  readonly suspensions?: readonly SuspensionView[];
  /** Pods opened by flows that an operator added; a port that does not belong to a pod is named by its number. */
  readonly openedByHand?: readonly { readonly pod: string; readonly secondsLeft: number }[];
  /** Descriptions of traffic that is denied although policies allow it, because numbers have run out. */
  readonly shortages?: readonly string[];
}

/** Pod that may communicate with its own node only. */
interface ClosedPod {
  /** `namespace/name`. */
  readonly pod: string;
  readonly why: string;
}

/** Status of the agent. Agents up to 0.2.0 do not report its health. */
export interface AgentStatus extends Partial<HealthReport> {
  readonly node: string;
  readonly versions: { readonly seine: string; readonly node: string; readonly ovs: string | null };
  readonly pid: number;
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly readiness: { readonly state: 'ready' | 'starting' | 'impaired'; readonly reason?: string };
  readonly bridge: { readonly name: string; readonly dataPath: 'system' | 'netdev' };
  /** Capabilities of the data path by feature: boolean, number, or null if it does not report them; absent before the first check. */
  readonly dataPath?: Readonly<Record<string, boolean | number | null>>;
  /** Network of the node; null until it is known. */
  readonly network: {
    readonly mode: string;
    readonly tunnel: string;
    readonly transport: readonly string[];
    readonly podCidrs: readonly string[];
    readonly serviceCidrs: readonly string[];
    readonly gateway: string;
    readonly mtu: number;
    readonly snat: boolean;
  } | null;
  readonly pods: { readonly attached: number; readonly pools: readonly PoolStatus[]; readonly journalError?: Failure };
  readonly peers: number;
  readonly services: number;
  /** Handling of Services in this version. */
  readonly proxy: {
    readonly proxyAll: string;
    /** Reply to load balancers at kube-proxy's health address, or the reason why there is none. Absent from agents up to 0.5.0. */
    readonly healthz?: string;
  };
  /** Plugins that the container runtime calls, in order, and those added by others, such as a service mesh. Absent if not known. */
  readonly cni?: { readonly chain: readonly string[]; readonly added: readonly string[] };
  readonly networkPolicy: NetworkPolicyStatus;
  readonly sources: readonly SourceStatus[];
  /** Number of such objects, and the first ones. */
  readonly objections: { readonly count: number; readonly first: readonly ObjectedObject[] };
  readonly connections: readonly ConnectionStatus[];
  readonly parts: readonly PartStatus[];
  readonly eventLoop: { readonly lagMsMax: number };
  /** Remaining time for which repair is paused; absent if it is not. */
  readonly repair?: { readonly pausedForSeconds: number };
  /** Settings that affect packets or the node and differ from the default, such as `policy.mode=audit (default enforce)`. */
  readonly switches?: readonly string[];
  /** Faults of the node itself, in words; each is also a problem of kind `node`. */
  readonly warnings?: readonly string[];
}
