/** Types of `/v1/flow-log`: connections that the node has seen, and what it did not record. */

export const flowEvents = ['opened', 'closed', 'denied', 'refused', 'gap', 'seen'] as const;
/**
 * `gap`: a time in which nothing was recorded, because the agent did not run or the log was off. `seen`: a connection in use that was open
 * before the log was turned on.
 */
export type FlowEvent = (typeof flowEvents)[number];

export const flowVerdicts = ['allowed', 'denied', 'would-deny', 'refused'] as const;
/** `would-deny`: policies deny it, and are not enforced. `refused`: the client got an answer. */
export type FlowVerdict = (typeof flowVerdicts)[number];

export const endKinds = ['pod', 'node', 'outside', 'unknown'] as const;
/** `unknown`: an address of a pod network for which this node knows no pod. */
export type EndKind = (typeof endKinds)[number];

/** One end of a connection, with the names that were valid on arrival. */
export interface FlowEnd {
  readonly address: string;
  /** Absent if the protocol has none, and in a later fragment. */
  readonly port?: number;
  readonly kind: EndKind;
  /** Namespace of a pod. */
  readonly namespace?: string;
  /** Name of the pod or node. */
  readonly name?: string;
  /** Name of the pod's controller, as its name shows it. */
  readonly workload?: string;
}

/** Service through which a connection was opened, at the address that its client requested. */
interface FlowService {
  readonly address: string;
  readonly port?: number;
  readonly namespace?: string;
  readonly name?: string;
}

/** Decision of one end's policies. */
export interface FlowDecision {
  readonly verdict: 'allowed' | 'denied';
  /** Rules that decided, or policies that isolate the pod; empty if no policy selects it. */
  readonly by: readonly string[];
}

/** One record. Counters are text: they may exceed 2^53 in sums. */
export interface FlowView {
  /** Node that recorded it. */
  readonly node: string;
  /** Number of the record on this node since its agent started. */
  readonly number: number;
  /** RFC 3339 with milliseconds. */
  readonly time: string;
  readonly event: FlowEvent;
  readonly verdict: FlowVerdict;
  /** End that is on this node; `both` if both are. */
  readonly reporter: 'source' | 'destination' | 'both';
  readonly family: 'ipv4' | 'ipv6';
  readonly protocol: string;
  readonly source: FlowEnd;
  readonly destination: FlowEnd;
  readonly service?: FlowService;
  readonly egress?: FlowDecision;
  readonly ingress?: FlowDecision;
  /** Reason of a denial or refusal, in words. */
  readonly reason?: string;
  /** Number of further packets like it: denied ones, or those that a client sent to open the connection before the first was answered. */
  readonly repeated?: number;
  readonly packets?: { readonly out: string; readonly in: string };
  readonly bytes?: { readonly out: string; readonly in: string };
  /** Present if the bytes are an estimate of the payload, by sequence numbers of TCP. */
  readonly estimated?: true;
  /** Present in a closed connection if its opening was seen, or conntrack has it. */
  readonly startedAt?: string;
  readonly endedAt?: string;
}

export const lossCauses = ['sampling', 'meter', 'rate', 'queue', 'ends', 'denied', 'names', 'kernel', 'disk'] as const;
/**
 * Causes why a connection has no record. `sampling`: not chosen by `flowLog.sampling`. `meter`: beyond the rate of its pod, limited by OVS. `rate`: beyond the rate of the node. `queue`:
 * OVS counted it, and its copy did not arrive. `ends`: ends of TCP connections on the userspace data path, for any of these reasons.
 * `denied`: packets beyond the meters of denied packets. `names`: recorded without a name, because there are too many names. `kernel`:
 * moments in which events of connection tracking were not read. `disk`: recorded in memory only.
 */
export type LossCause = (typeof lossCauses)[number];

export type FlowLosses = Readonly<Record<LossCause, number>>;

/** State of the log, sent before the records and after them. */
export interface FlowLogState {
  readonly node: string;
  readonly enabled: boolean;
  /** One of so many connections is recorded; absent: each. */
  readonly sampling?: number;
  /** Events that this node can see, e.g. no byte counts on the userspace data path. */
  readonly sources: readonly string[];
  /** Time from which the answer is complete; absent while the log is off. */
  readonly completeFrom?: string;
  /** Connections without a record since the requested time. */
  readonly losses: FlowLosses;
  /** Records that the reader did not get: it is too slow, or there are too many for one answer. */
  readonly skipped: number;
}

/** Line of the answer: the state, or a record. */
export type FlowLine = { readonly state: FlowLogState } | { readonly flow: FlowView };

/** Connections with equal ends, Service, port, verdict and rule, as the node of one end sees them. */
export interface FlowSummary {
  /** End whose node counted: that of the source does not know what the other denies. Absent where nodes are joined. */
  readonly reporter?: 'source' | 'destination' | 'both';
  readonly source: string;
  readonly destination: string;
  /** Service that the client requested; only the node of the source knows it. */
  readonly service?: string;
  readonly protocol: string;
  /** Port of the endpoint, not of the Service. */
  readonly port?: number;
  readonly verdict: FlowVerdict;
  readonly rule?: string;
  readonly connections: number;
  readonly bytes?: string;
}

/** Answer of `/v1/flow-log/summary`. */
export interface FlowSummaries {
  readonly state: FlowLogState;
  /** RFC 3339, the first minute that is included. */
  readonly since: string;
  readonly items: readonly FlowSummary[];
  /** Connections that are in no item, because there were too many different ones. */
  readonly others: number;
}
