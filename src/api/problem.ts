import type { PartName } from './entry.ts';
import type { Failure } from './failure.ts';

/** Kinds of problems, with their meaning. Names are stable, for scripts. */
export const problemKinds = {
  'agent.ready': 'no pods are served now; `about` is the state',
  'agent.repair': 'repair is paused: foreign changes stay',
  connection: 'a connection to Open vSwitch is down',
  source: 'the copy of an API resource is outdated',
  'source.object': 'an object of the API cannot be read; its last good value is served',
  'part.failing': 'a target of the node cannot be observed or written',
  'part.refused': 'the entries of one owner are refused',
  'part.contested': 'another program keeps changing entries; they are repaired with growing delays',
  'part.drift': 'a foreign change was found and is being repaired',
  'part.behind': 'desired entries have been missing for seconds',
  object: 'a Service or Node is not served, or only in part',
  'policy.closed': 'a pod of this node is blocked because its policies are not known; only its node can reach it',
  'policy.suspended': 'policies are suspended for some pods; `about` is the pod, the namespace, or the node',
  'policy.opened': 'flows that an operator added open a pod regardless of policies, until they expire',
  'policy.numbers':
    'numbers for policies have run out: less is allowed than the policies specify; the message names the namespace, its rules and its share ([policy](network-policy.md#limits)). Combine networks with the same ports into one rule',
  'policy.associations':
    'the share of SCTP associations of a sender is full (userspace data path): replies of further ones are denied if policies isolate an end; `about` is its address',
  'peer.direct':
    'echoes to a peer without a tunnel are lost while its own address answers: the network drops packets with pods’ addresses ([traffic modes](traffic-modes.md#prerequisites)); `about` is the family and the node',
  'mesh.peer':
    'echoes between the gateways of this node and another are lost, much slower than usual, or lost at full size ([mesh](history.md#links-between-nodes)); `about` is the node',
  'route.conflict':
    'another program has a route to a peer’s pod network, which Seine never replaces: the peer stays in its previous mode; `about` is the node',
  'route.detour':
    'a route of another program takes packets for a part of a network to which Seine has a route; with encryption they are dropped ([traffic modes](traffic-modes.md#inspect)); `about` is the part',
  'peer.handshake':
    'a peer does not answer WireGuard handshakes while packets are sent to it ([encryption](encryption.md#problems)); `about` is the node',
  'wireguard.cleartext':
    'packets of pods that are not encrypted were dropped in the last minute: another program routes them around encryption ([encryption](encryption.md#problems))',
  'service.affinity':
    'a Service port remembers the maximum number of clients for session affinity; further clients are balanced without it; `about` is the port',
  addresses: 'a pod CIDR is nearly used up',
  journal: 'no address can be allocated: the journal cannot be written',
  'pod.gone': 'the API server does not have a pod (any more) that has addresses here',
  cni: 'the CNI plugin or its configuration is not what was installed; `about` is the file',
  node: 'a warning about the node itself; `about` is the part of the agent that found it',
  held: 'a mass removal waits for a second check; `about` is the kind of entries',
  history: 'the history of the node cannot be written; `seinectl timeline` lacks this time',
  'trace.disagrees':
    'for a connection, the flows in Open vSwitch do not do what the agent requires; found at random in the background, twice in a row ([tracing](tracing.md#in-the-background)); `about` is the sender and the table',
  'check.failing': 'a periodic check fails repeatedly',
} as const;
type ProblemKind = keyof typeof problemKinds;

/** Problem that needs an operator, unless it ends by itself. It is removed from the list once it has ended. */
export interface Problem {
  readonly kind: ProblemKind;
  /** Target, connection, resource, owner, object, file or setting; together with the kind it identifies the problem. */
  readonly about: string;
  /** Target of the node, if the problem concerns one. */
  readonly part?: PartName;
  /** Description in one sentence. The wording changes between releases. */
  readonly message: string;
  /** Seconds since the agent first found it, without interruption. */
  readonly ageSeconds: number;
  /** Remedy, as one command if possible; absent if it is not known. */
  readonly remedy?: string;
}

/** Problem as found by a check; the agent adds the time. */
export type FoundProblem = Omit<Problem, 'ageSeconds'>;

/**
 * Freshness of a check:
 *
 * - `fresh`    the last check is within its deadline
 * - `overdue`  it is older
 * - `not yet`  nothing was checked since the agent started, or since OVS was replaced
 */
const freshnessStates = ['fresh', 'overdue', 'not yet'] as const;
type HealthCheckFreshness = (typeof freshnessStates)[number];

/** Periodic check of everything of one kind, independent of events. */
export interface HealthCheckStatus {
  /** Name of a target of the node, or of other state that is checked. */
  readonly name: string;
  readonly state: HealthCheckFreshness;
  /** Seconds since the last finished check began; null before the first. */
  readonly ageSeconds: number | null;
  /** Interval from the end of a check to the beginning of the next one. */
  readonly everySeconds: number;
  /** Deadline: an older check is overdue. */
  readonly roundSeconds: number;
  readonly tookMs: number | null;
  /** Number of repairs since the agent started; absent for targets of the node. */
  readonly repaired?: number;
  /** Reason why the last check could not be finished, if so. */
  readonly lastError?: Failure;
}

/**
 * Overall verdict:
 *
 * - `no problems`        no problem is known, and every check is within its deadline
 * - `problems`           see `problems`
 * - `not all checked`    no problem is known, but a check is missing or overdue
 */
const verdicts = ['no problems', 'problems', 'not all checked'] as const;
type HealthVerdict = (typeof verdicts)[number];

/** All problems, the worst first, and the age of the checks. */
export interface HealthReport {
  readonly problems: readonly Problem[];
  readonly healthChecks: readonly HealthCheckStatus[];
  readonly verdict: HealthVerdict;
}
