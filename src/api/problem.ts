import type { PartName } from './entry.ts';
import type { Failure } from './failure.ts';

/** Everything that can be wrong, with what it means. Names are stable, for scripts. */
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

/** Something that an operator should do something about, unless it ends by itself. Gone from the list once it is. */
export interface Problem {
  readonly kind: ProblemKind;
  /** The part, connection, resource, owner, object, file or setting; with the kind it names the problem. */
  readonly about: string;
  /** The part of the node, where it is of one. */
  readonly part?: PartName;
  /** A sentence. Wording changes between releases. */
  readonly message: string;
  /** Seconds since the agent first saw it, without a break. */
  readonly ageSeconds: number;
  /** What to do, one command where one suffices; absent if it is not known. */
  readonly mend?: string;
}

/** A problem as it is found; since when it is there, the agent notes. */
export type FoundProblem = Omit<Problem, 'ageSeconds'>;

/**
 * - `fresh`    the last look is younger than a round of it
 * - `overdue`  it is older
 * - `not yet`  nothing was looked at since the agent began, or since the switch was replaced
 */
const lookStates = ['fresh', 'overdue', 'not yet'] as const;
type LookFreshness = (typeof lookStates)[number];

/** A look at everything of one kind, whether or not events said anything. */
export interface LookStatus {
  /** A part of the node, or another state that is looked at. */
  readonly name: string;
  readonly state: LookFreshness;
  /** Since the last finished look began; null before the first. */
  readonly ageSeconds: number | null;
  /** From the end of a look to the beginning of the next. */
  readonly everySeconds: number;
  /** A round of it: a look that is older is overdue. */
  readonly roundSeconds: number;
  readonly tookMs: number | null;
  /** What it has put right since the agent began, where it is not a part of the node. */
  readonly repaired?: number;
  /** Why the last one could not be finished, if it could not. */
  readonly lastError?: Failure;
}

/**
 * - `no problems`        none is known, and everything was looked at within its last round
 * - `problems`           see `problems`
 * - `not all looked at`  none is known, but a look is missing or overdue
 */
const verdicts = ['no problems', 'problems', 'not all looked at'] as const;
type HealthVerdict = (typeof verdicts)[number];

/** All that is wrong, worst first, and how old the answer is. */
export interface HealthReport {
  readonly problems: readonly Problem[];
  readonly looks: readonly LookStatus[];
  readonly verdict: HealthVerdict;
}
