import type { PartName } from './entry.ts';
import type { Failure } from './failure.ts';
import type { SuspensionView } from './policy.ts';
import type { HealthReport } from './problem.ts';

/** A resource of the Kubernetes API that the agent follows. */
export interface SourceStatus {
  readonly kind: string;
  /** Confirmed by the API server since the agent began. Until then its objects may be what an earlier agent stored. */
  readonly synced: boolean;
  /**
   * How far its objects can be relied upon: as the API server has them now, or why not. `refused`: we may not read it; `gone`: the API
   * server has no such resource; `behind`: the API server has not come as far as what was seen before; `failing`: no answer.
   * Agents up to 0.2.0 do not say it.
   */
  readonly state?: 'in step' | 'not confirmed' | 'held' | 'refused' | 'gone' | 'behind' | 'failing';
  /** What it is busy with, in its own words. */
  readonly doing: string;
  readonly objects: number;
  /** A list lacked so many objects that nothing is removed until a second one agrees. */
  readonly held?: { readonly known: number; readonly missing: number };
  /** Failures in a row. */
  readonly failures: number;
  readonly lastError?: Failure;
  /** Objects that make no sense to us, with what is wrong; the first of them. */
  readonly invalid: readonly { readonly name: string; readonly message: string }[];
}

/** A connection the agent keeps up. */
export interface ConnectionStatus {
  readonly name: 'ovsdb' | 'openflow' | 'packetIn';
  readonly up: boolean;
  /** Times it came up since the agent began. */
  readonly connects: number;
  readonly counters: Readonly<Record<string, number>>;
  readonly lastError?: Failure;
}

/** An owner whose wish a target does not take. */
interface RefusedOwner {
  readonly owner: string;
  readonly error: Failure;
}

/** An object of the API that is served in part or not at all: what it says, a node must not do. */
interface ObjectedObject {
  readonly kind: string;
  /** `namespace/name`, or `name`. */
  readonly name: string;
  readonly reasons: readonly string[];
}

/** One part of the node and how far it is what is wanted. */
export interface PartStatus {
  readonly part: PartName;
  /** Entries. */
  readonly wanted: number;
  /** As far as the agent knows; null while it must look again. */
  readonly held: number | null;
  /** Every change of a wish counts one. */
  readonly revision: number;
  readonly realizedRevision: number;
  /** Entries repaired since the agent started, after foreign changes or a restart of Open vSwitch. */
  readonly drift: number;
  /** The first of them. */
  readonly refused: readonly RefusedOwner[];
  /** All of them. Agents up to 0.2.0 do not say it, nor the two below. */
  readonly refusedCount?: number;
  /** Entries that another program changed, found and not repaired yet. */
  readonly repairing?: number;
  /** How long something that is wanted is not there yet; absent if all is. */
  readonly behindSeconds?: number;
  /** Entries that another program keeps changing, repaired with back-off. */
  readonly contested: number;
  readonly lastError?: Failure;
}

export interface PoolStatus {
  readonly cidr: string;
  readonly size: number;
  readonly allocated: number;
  /** Given up by their pods, and not yet proven to be gone. */
  readonly quarantined: number;
}

/** What NetworkPolicies do on this node. */
export interface NetworkPolicyStatus {
  /** Agents up to 0.3.0 enforce none, and say nothing of pods. */
  readonly enforcement: 'enforced' | 'not enforced';
  /** Of this node; absent if it is not known yet. */
  readonly mode?: 'enforce' | 'audit' | 'off';
  /** Of the cluster. */
  readonly objects: number;
  /** Those that isolate pods of this node. */
  readonly selecting?: number;
  /** Pods of this node: that policies isolate, and that are closed, with why. */
  readonly isolatedPods?: number;
  readonly closedPods?: readonly ClosedPod[];
  /** Policies that do nothing to some pods for a while. */
  readonly suspensions?: readonly SuspensionView[];
  /** Pods that flows put by hand open; a port that is no pod's is named by its number. */
  readonly openedByHand?: readonly { readonly pod: string; readonly secondsLeft: number }[];
  /** What is denied that policies allow because numbers for it have run out, in words. */
  readonly shortages?: readonly string[];
}

/** A pod to which nothing but its own node may talk. */
interface ClosedPod {
  /** `namespace/name`. */
  readonly pod: string;
  readonly why: string;
}

/** Of its health agents up to 0.2.0 say nothing. */
export interface AgentStatus extends Partial<HealthReport> {
  readonly node: string;
  readonly versions: { readonly seine: string; readonly node: string; readonly ovs: string | null };
  readonly pid: number;
  readonly startedAt: string;
  readonly uptimeSeconds: number;
  readonly readiness: { readonly state: 'ready' | 'starting' | 'impaired'; readonly reason?: string };
  readonly bridge: { readonly name: string; readonly dataPath: 'system' | 'netdev' };
  /** What the data path can do, by the name of each feature: yes or no, a number, or null for what it does not say; absent until it was looked at. */
  readonly dataPath?: Readonly<Record<string, boolean | number | null>>;
  /** Null until the node is known. */
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
  /** What this version does for Services. */
  readonly proxy: {
    readonly proxyAll: string;
    /** What load balancers are told at kube-proxy's health address, or why nothing. Agents up to 0.5.0 tell nothing. */
    readonly healthz?: string;
  };
  /** The plugins that the container runtime calls, in order; those that others have added to our list, e.g. a service mesh. Absent if not known. */
  readonly cni?: { readonly chain: readonly string[]; readonly added: readonly string[] };
  readonly networkPolicy: NetworkPolicyStatus;
  readonly sources: readonly SourceStatus[];
  /** The first of them, and how many there are. */
  readonly objections: { readonly count: number; readonly first: readonly ObjectedObject[] };
  readonly connections: readonly ConnectionStatus[];
  readonly parts: readonly PartStatus[];
  readonly eventLoop: { readonly lagMsMax: number };
  /** How long repair is paused still; absent if it is not. */
  readonly repair?: { readonly pausedForSeconds: number };
  /** What of the configuration changes packets or the node and is not the default, e.g. `policy.mode=audit (default enforce)`. */
  readonly switches?: readonly string[];
  /** What is wrong with the node itself, in words for people; each is a problem of kind `node`, too. */
  readonly warnings?: readonly string[];
}
