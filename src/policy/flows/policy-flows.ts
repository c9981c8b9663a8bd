import { finish, type Steps } from '../../base/async/steps.ts';
import type { Family } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import type { CoarseRooms, PolicyChange } from '../engine/policy-engine.ts';
import {
  type ClusterTier,
  classesIn,
  type MatrixSubject,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  policyDirections,
  policyTiers,
} from '../matrix/matrix.ts';
import { withCopies } from './class-copies.ts';
import { type ClassEdit, type ClassMove, podsByPlace } from './class-edits.ts';
import { DirectionFlows } from './direction-flows.ts';
import type { DirectionKeys, DirectionRows, FlowsMatrix, MatrixAfter } from './flows-matrix.ts';
import type { NumberRanges } from './number-ranges.ts';
import { type HeldBefore, PreviousAgentState, type Surroundings } from './previous-agent-state.ts';
import { numberKinds } from './recovered-numbers.ts';
import { type DirectionTransition, type PolicyTransition, type TransitionBounds, type TransitionEnd, transitionOf } from './transition.ts';

interface PolicyFlowsOptions {
  /** Address families of the node: no rows are made for others. */
  readonly families: readonly Family[];
  /** Flows of a previous agent on the bridge, whose numbers stay valid. */
  readonly recovered?: Iterable<RecoveredFlow>;
  /** Bounds of the rows that exist only during a transition. Default: 4,096 identities and 50,000 rows. */
  readonly transitionMost?: TransitionBounds;
  /** Ranges of numbers. Default: as many as the registers have room for. */
  readonly rangeOf?: NumberRanges;
}

/** Result of a round. */
interface PolicyFlowsChange {
  /** Desired flows of the owners that have changed; an empty list if the owner wants none any more. */
  readonly wanted: ReadonlyMap<Owner, readonly Flow[]>;
  /** Pods, `namespace/name`, whose `classesOf` or addresses may have changed. */
  readonly subjects: ReadonlySet<string>;
}

/** Result of a round in parts; each part resubmits to, or depends on, the parts before it. */
interface PolicyFlowsRound {
  readonly wanted: readonly ReadonlyMap<Owner, NumberedRow | readonly Flow[]>[];
  /**
   * Rows in use by entry flows whose content changes: to be applied after the other parts, and all at once. Values as in
   * `PolicyFlowsChange`.
   */
  readonly edited: ReadonlyMap<Owner, readonly Flow[]>;
  readonly subjects: ReadonlySet<string>;
}

/**
 * Class of a local pod for its entry flows. `free`: no policy isolates it. `closed`: blocked pending policy, or because no number is free
 * for its class. Else the number of its class in each direction that isolates it; an absent direction is free.
 */
export type PodClasses = 'free' | 'closed' | PodClassNumbers;

/** Numbers of a pod's classes of NetworkPolicies, and of cluster policies. */
interface PodClassNumbers {
  readonly ingress?: number;
  readonly egress?: number;
  readonly cluster?: Readonly<Partial<Record<PolicyDirection, Readonly<Partial<Record<ClusterTier, number>>>>>>;
}

interface PolicyPlan extends PolicyFlowsRound {
  /** Pods, `namespace/name`, whose classes change. */
  readonly moved: ReadonlySet<string>;
  readonly ends: PolicyTransition['ends'];
}

interface PolicyRoundOptions {
  /** Maximum number of flows that may be edited in place. If absent, none is, and every changed row gets another number. */
  readonly editedMost?: number;
  readonly kept?: PolicyTransition['kept'];
}

type RoundEdits = Readonly<Record<PolicyDirection, readonly ClassEdit[]>>;

const noEdits: RoundEdits = { ingress: [], egress: [] };
const noKeys: DirectionKeys = { identities: new Set(), relations: new Set() };

/** Surroundings without a previous agent. */
const noSurroundings: Surroundings = { adoptedAt: () => undefined, areAddressesKnown: () => false };

const transitionMost: TransitionBounds = { identities: 4_096, rows: 50_000 };

interface DecidedRows {
  readonly direction: PolicyDirection;
  readonly owner: Owner;
  /** Decision without ranges if the owner is a row of relations. */
  readonly decision: PolicyDecision;
}

/**
 * Turns the rows of a matrix into flows by owner. Numbers stand for contents (a class, a decision) and never change their meaning while the
 * bridge may have them. Each owner wants rows in one table, so that a row is installed before those that resubmit to it.
 *
 * Uses no clock and no OVS. In each round: call `update`, write its result, call `written`; and call `acknowledged` from time to time, so
 * that numbers become free.
 */
export class PolicyFlows {
  readonly #directions: Readonly<Record<(typeof policyDirections)[number], DirectionFlows>>;
  readonly #pods = new Map<string, PodClasses>();
  /** Pods blocked because no number is free for their class. */
  readonly #starved = new Set<string>();
  #isEditing = false;
  /** Last id of a peer class that no engine has made. */
  #lastTransitional = 0;
  readonly #transitionMost: TransitionBounds;
  readonly #previousAgent: PreviousAgentState;

  constructor({ families, recovered = [], transitionMost: most = transitionMost, rangeOf }: PolicyFlowsOptions) {
    this.#transitionMost = most;
    const flows = [...recovered];
    const flowsOf = (direction: PolicyDirection): DirectionFlows => new DirectionFlows(direction, families, flows, rangeOf);
    this.#directions = { ingress: flowsOf('ingress'), egress: flowsOf('egress') };
    this.#previousAgent = new PreviousAgentState(this.#directions, () => --this.#lastTransitional);
  }

  /**
   * Returns the pods with entry flows that a round moves to other classes, compared with the last round or with the flows of a previous
   * agent.
   */
  movedPods(...of: Parameters<PreviousAgentState['movedPods']>): ReadonlySet<string> {
    return this.#previousAgent.movedPods(...of);
  }

  /** Numbers of coarse parts that are free now. */
  readonly coarseRooms: CoarseRooms = { ingress: this.#roomOf('ingress'), egress: this.#roomOf('egress') };

  #roomOf(direction: PolicyDirection): CoarseRooms[PolicyDirection] {
    const contents = () => this.#directions[direction].contents;
    return {
      isKnown: (set) => !contents().isFresh('coarse', set),
      get free() {
        return contents().pools.coarse.free;
      },
    };
  }

  /**
   * Computes the flows of a round: if it moves pods between classes, the beginning of a transition and the rounds that end it; else edits
   * of rows in place and rows with other numbers. Readers see nothing of it before `publish`.
   *
   * @param matrices matrix of the last round, and of this one
   * @param editedMost returns the number of flows that may be edited in place; called only if no pod moves
   */
  *plan(
    { matrix, coming }: { readonly matrix: PolicyMatrix; readonly coming: PolicyMatrix },
    change: PolicyChange,
    surroundings: Surroundings,
    editedMost: () => Steps<number>,
  ): Steps<PolicyPlan> {
    const moved = this.movedPods(matrix, coming, change.subjects, surroundings.adoptedAt);
    const transition = moved.size > 0 ? yield* this.transition(matrix, coming, change, surroundings) : undefined;
    const round = transition
      ? yield* this.round(transition.matrix, transition.begin, transition)
      : yield* this.round(coming, change, { editedMost: yield* editedMost() });
    return { ...round, moved, ends: transition?.ends ?? [] };
  }

  /** Runs and publishes a whole round. @param matrix current matrix of `PolicyEngine` @param change as for `round` */
  update(matrix: PolicyMatrix, change: PolicyChange): PolicyFlowsChange {
    const { wanted, subjects } = finish(this.round(matrix, change));
    this.publish(matrix, subjects);
    const flowsOf = (rows: NumberedRow | readonly Flow[]): readonly Flow[] =>
      'number' in rows ? [rows.rows.flowOf(rows.ip, rows.number)] : rows;
    return { wanted: new Map(wanted.flatMap((each) => [...each].map(([owner, rows]) => [owner, flowsOf(rows)] as const))), subjects };
  }

  /**
   * Returns the state between two matrices while entry flows change from one to the next, such that each packet meets the policies before
   * or after the change; undefined if no such state is needed. Its beginning is a round, and so is each end.
   */
  *transition(
    before: PolicyMatrix,
    coming: PolicyMatrix,
    changes: PolicyChange,
    surroundings: Surroundings = noSurroundings,
  ): Steps<PolicyTransition | undefined> {
    const seen = yield* this.#previousAgent.seen(before, coming, surroundings);
    const { matrix: after, change } = this.#previousAgent.withLingering<MatrixAfter>(coming, changes);
    const [into, out] = [
      yield* this.#transitionOf('ingress', seen, after, change),
      yield* this.#transitionOf('egress', seen, after, change),
    ];
    if (!into && !out) return undefined;
    const copies = { ingress: into?.copies, egress: out?.copies };
    return {
      matrix: { subjects: withCopies(after.subjects, copies), ingress: into ?? after.ingress, egress: out ?? after.egress },
      begin: { subjects: change.subjects, ingress: into?.begin ?? change.ingress, egress: out?.begin ?? change.egress },
      ends: endsOf(after, into, out),
      kept: { ingress: into ?? {}, egress: out ?? {} },
    };
  }

  *#transitionOf(
    direction: PolicyDirection,
    seen: HeldBefore,
    after: MatrixAfter,
    change: PolicyChange,
  ): Steps<DirectionTransition | undefined> {
    const flows = this.#directions[direction];
    return yield* transitionOf({
      direction,
      before: seen.matrix,
      after,
      pods: change.subjects,
      changed: change[direction],
      held: seen.held[direction],
      isFresh: (content) => ('coarse' in content ? flows.isFresh(content) : flows.contents.isFresh('class', content)),
      isIdentified: (cidr) => flows.isIdentified(cidr),
      most: { ...this.#transitionMost, identities: Math.min(this.#transitionMost.identities, flows.numbers.fine.free) },
      nextId: () => --this.#lastTransitional,
      freeClasses: (of) => flows.contents.classPool(of).free,
    });
  }

  /**
   * Computes the rows of a round. Readers see nothing of it before `publish`.
   *
   * @param matrix matrix after the round
   * @param change all changes since the last round: rows that are not named are taken as unchanged
   */
  *round(coming: FlowsMatrix, changes: PolicyChange, { editedMost = 0, kept }: PolicyRoundOptions = {}): Steps<PolicyFlowsRound> {
    const { matrix, change } = this.#previousAgent.withLingering(coming, changes);
    const pods = new Set([...change.subjects, ...this.#starved]);
    const { ingress, egress } = this.#directions;
    const edits = editedMost > 0 ? yield* this.#edits(matrix, pods, change, editedMost) : noEdits;
    const into = yield* ingress.round(matrix, pods, change.ingress, { ...kept?.ingress, edits: edits.ingress });
    const out = yield* egress.round(matrix, pods, change.egress, { ...kept?.egress, edits: edits.egress });
    this.#isEditing = false;
    this.#previousAgent.released();
    const wanted = [into.rows, out.rows, into.addresses, out.addresses, into.networks, out.networks];
    return { wanted, edited: new Map([...into.edited, ...out.edited]), subjects: pods };
  }

  /**
   * Reports whether a round that edits rows in place is running. Which classes it edits is not known before its end, so no pod may be
   * admitted meanwhile.
   */
  get isEditing(): boolean {
    return this.#isEditing;
  }

  /** Returns all edits of the round or none: changes of a policy in both directions and for several classes take effect at once. */
  *#edits(matrix: FlowsMatrix, pods: ReadonlySet<string>, change: PolicyChange, most: number): Steps<RoundEdits> {
    const moves = this.#movesOf(matrix, pods, change);
    this.#isEditing = policyDirections.some((direction) => moves[direction].length > 0);
    if (!this.#isEditing) return noEdits;
    const { ingress, egress } = this.#directions;
    const edits = {
      ingress: yield* ingress.editsOf(matrix, moves.ingress, change.ingress),
      egress: yield* egress.editsOf(matrix, moves.egress, change.egress),
    };
    const size = [...edits.ingress, ...edits.egress].reduce((sum, edit) => sum + edit.size, 0);
    this.#isEditing = size <= most;
    return this.#isEditing ? edits : noEdits;
  }

  /**
   * Keeps a move only if each of its pods is in a move of every other direction and tier too, or is unchanged there: all classes of a pod
   * change in the same way.
   */
  #movesOf(matrix: FlowsMatrix, pods: ReadonlySet<string>, change: PolicyChange): Readonly<Record<PolicyDirection, readonly ClassMove[]>> {
    const moves = {
      ingress: this.#directions.ingress.movesOf(matrix, pods, change.ingress),
      egress: this.#directions.egress.movesOf(matrix, pods, change.egress),
    };
    for (let before = -1; before !== moves.ingress.length + moves.egress.length; ) {
      before = moves.ingress.length + moves.egress.length;
      const moving = podsByPlace(moves);
      const isAlike = (pod: string): boolean =>
        policyDirections.every((direction) =>
          policyTiers.every(
            (tier) => moving.get(`${direction} ${tier}`)?.has(pod) || !this.#directions[direction].isMoved(matrix, pod, tier),
          ),
        );
      for (const direction of policyDirections) moves[direction] = moves[direction].filter((move) => move.pods.every(isAlike));
    }
    return moves;
  }

  /** Makes a round visible to readers. @param matrix matrix of the round @param pods its changed subjects */
  publish({ subjects }: Pick<PolicyMatrix, 'subjects'>, pods: Iterable<string>): void {
    for (const pod of pods) this.#publishPod(pod, subjects.get(pod));
  }

  /**
   * Adds a pod to classes that other pods of the node have, between rounds or during one.
   *
   * @param subject its row, as returned by `PolicyEngine.admit`
   */
  admit(pod: string, subject: MatrixSubject): void {
    for (const direction of policyDirections) this.#directions[direction].admit(pod, subject);
    this.#publishPod(pod, subject);
  }

  #publishPod(pod: string, subject: MatrixSubject | undefined): void {
    const classes = subject && this.#numbersOf(pod, subject);
    if (classes) this.#pods.set(pod, classes);
    else this.#pods.delete(pod);
    if (classes === 'closed') this.#starved.add(pod);
    else this.#starved.delete(pod);
  }

  /** Returns the classes of a local pod; `closed` if the matrix does not have it. @param pod `namespace/name` */
  classesOf(pod: string): PodClasses {
    return this.#pods.get(pod) ?? 'closed';
  }

  #numbersOf(pod: string, subject: MatrixSubject): PodClasses {
    const own: { ingress?: number; egress?: number } = {};
    const cluster: Partial<Record<PolicyDirection, Partial<Record<ClusterTier, number>>>> = {};
    for (const direction of policyDirections) {
      if (classesIn(subject, direction).length === 0) continue;
      const numbers = this.#directions[direction].classNumbersOf(pod);
      if (!numbers) return 'closed';
      const { networkPolicy, ...ofTiers } = numbers;
      if (networkPolicy !== undefined) own[direction] = networkPolicy;
      if (Object.keys(ofTiers).length > 0) cluster[direction] = ofTiers;
    }
    if (Object.keys(cluster).length > 0) return { ...own, cluster };
    return Object.keys(own).length === 0 ? 'free' : own;
  }

  /** Owners of rows that decide about packets, with the decision they are made of. @param matrix matrix of the last `update` */
  *decided(matrix: PolicyMatrix): Generator<DecidedRows> {
    for (const direction of policyDirections)
      for (const [owner, decision] of this.#directions[direction].decided(matrix[direction])) yield { direction, owner, decision };
  }

  /** Notes that the results of `update` since the last call are in the desired state of the bridge from this revision on. */
  written(revision: number): void {
    for (const numbers of this.#pools()) numbers.written(revision);
  }

  /**
   * Notes that the bridge has this revision of the desired state, and no obsolete rows of policy.
   *
   * @param nowMs from any fixed moment
   * @returns true if rows or pods without a number may get one now: then call `update`
   */
  acknowledged(revision: number, nowMs: number): boolean {
    let isFreed = false;
    for (const numbers of this.#pools()) isFreed = numbers.acknowledged(revision, nowMs) || isFreed;
    return isFreed && this.problems.length > 0;
  }

  /**
   * Notes that all sources are synced and the bridge has no obsolete rows of policy: numbers of a previous agent that no content has
   * claimed are free.
   *
   * @returns true if a round has work to do now
   */
  obsoleteRemoved(): boolean {
    for (const numbers of this.#pools()) numbers.obsoleteRemoved();
    return this.#previousAgent.swept() || this.problems.length > 0;
  }

  /** Descriptions of traffic that is denied although policies allow it, because numbers have run out. */
  get problems(): readonly string[] {
    const rows = policyDirections.flatMap((direction) => {
      const { starved } = this.#directions[direction];
      return starved === 0 ? [] : [`${direction}: ${starved} rows have no number: what they would allow is denied`];
    });
    return this.#starved.size === 0 ? rows : [`${this.#starved.size} pods are blocked: there is no number for their class`, ...rows];
  }

  #pools() {
    return policyDirections.flatMap((direction) => numberKinds.map((kind) => this.#directions[direction].numbers[kind]));
  }
}

function endsOf(after: MatrixAfter, into: DirectionTransition | undefined, out: DirectionTransition | undefined): readonly TransitionEnd[] {
  const subjects = new Set([...(into?.copies.keys() ?? []), ...(out?.copies.keys() ?? [])]);
  const change = { subjects, ingress: into?.end ?? noKeys, egress: out?.end ?? noKeys };
  if (subjects.size === 0) return [{ matrix: after, change }];
  const rows = (direction: PolicyDirection, lingering: DirectionTransition['lingering'] | undefined): DirectionRows => {
    const { identities, relations } = after[direction];
    return { relations, identities: { get: (cidr) => identities.get(cidr) ?? lingering?.get(cidr) } };
  };
  const matrix = { subjects: after.subjects, ingress: rows('ingress', into?.lingering), egress: rows('egress', out?.lingering) };
  const gone = (lingering: DirectionTransition['lingering'] | undefined): DirectionKeys => ({
    ...noKeys,
    identities: new Set(lingering?.keys()),
  });
  const last = { subjects: new Set<string>(), ingress: gone(into?.lingering), egress: gone(out?.lingering) };
  return [
    { matrix, change },
    { matrix: after, change: last },
  ];
}
