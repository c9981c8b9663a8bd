import type { PartName } from './entry.ts';
import type { Failure } from './failure.ts';

/** Kinds of problems, with their meaning. Names are stable, for scripts. */
export const problemKinds = {
  'agent.ready': 'no pods are served now; `about` is the state',
  'agent.repair': 'repair is paused: foreign changes stay',
  connection: 'a connection to Open vSwitch is down',
  source: 'what is known of a resource of the API is not in step with the API server',
  'source.object': 'an object of the API cannot be read; its last good value is served',
  'part.failing': 'a part of the node cannot be looked at or written',
  'part.refused': 'the entries of one owner are refused',
  'part.contested': 'another program keeps changing entries; they are repaired more and more slowly',
  'part.drift': 'a foreign change was found and is being repaired',
  'part.behind': 'what is wanted is not there yet, for seconds',
  object: 'a Service or Node is not served, or in part only',
  'policy.closed': 'a pod of this node is closed: what policies say of it is not known, and nothing but its node may talk to it',
  'policy.suspended': 'policies do nothing to some pods for a while; `about` is the pod, the namespace, or the node',
  'policy.opened': 'flows put by hand open a pod, whatever policies say, until their time is over',
  'policy.numbers':
    'numbers for policies have run out: less is allowed than they say; the namespace, its rules and its share are named ([policy](network-policy.md#limits)). Combine networks with the same ports into one rule',
  'policy.associations':
    'a sender has used up its share of SCTP associations (userspace data path): answers to further ones are denied where policies isolate an end; `about` is its address',
  addresses: 'a pod CIDR is nearly used up',
  journal: 'no address can be allocated: the journal cannot be written',
  'pod.gone': 'the API server does not have a pod (any more) that has addresses here',
  cni: 'the CNI plugin or its configuration is not what was installed; `about` is the file',
  node: 'something is wrong with the node itself; `about` is what looked at it',
  held: 'so much would be removed at once that it waits for a second look; `about` is what',
  'look.failing': 'something could not be looked at, again and again',
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
  readonly mend?: string;
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
const lookStates = ['fresh', 'overdue', 'not yet'] as const;
type LookFreshness = (typeof lookStates)[number];

/** Periodic check of everything of one kind, independent of events. */
export interface LookStatus {
  /** Name of a target of the node, or of other state that is checked. */
  readonly name: string;
  readonly state: LookFreshness;
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
 * - `not all looked at`  no problem is known, but a check is missing or overdue
 */
const verdicts = ['no problems', 'problems', 'not all looked at'] as const;
type HealthVerdict = (typeof verdicts)[number];

/** All problems, the worst first, and the age of the checks. */
export interface HealthReport {
  readonly problems: readonly Problem[];
  readonly looks: readonly LookStatus[];
  readonly verdict: HealthVerdict;
}
