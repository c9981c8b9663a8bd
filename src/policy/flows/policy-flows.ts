import { finish, type Steps } from '../../base/async/steps.ts';
import type { Family } from '../../base/net/ip.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Flow } from '../../dataplane/pipeline/flow.ts';
import type { NumberedRow } from '../../dataplane/pipeline/flow-pattern.ts';
import type { RecoveredFlow } from '../../dataplane/pipeline/recovered-flow.ts';
import type { CoarseRooms, PolicyChange } from '../engine/policy-engine.ts';
import { type MatrixSubject, type PolicyDecision, type PolicyDirection, type PolicyMatrix, policyDirections } from '../matrix/matrix.ts';
import type { ClassEdit, ClassMove } from './class-edits.ts';
import { DirectionFlows } from './direction-flows.ts';
import type { DirectionKeys, DirectionRows, FlowsMatrix, MatrixAfter, RowsByKey } from './flows-matrix.ts';
import type { NumberRanges } from './number-ranges.ts';
import { type HeldBefore, Predecessor, type Surroundings } from './previous-agent-state.ts';
import { numberKinds } from './recovered-numbers.ts';
import { type DirectionTransition, type TransitionBounds, transitionOf } from './transition.ts';

interface PolicyFlowsOptions {
  /** Of the node: rows are made for no other. */
  readonly families: readonly Family[];
  /** What the bridge holds of an earlier agent, whose numbers go on being valid. */
  readonly recovered?: Iterable<RecoveredFlow>;
  /** Of what is there for a transition alone; left out: 4,096 identities and 50,000 rows. */
  readonly transitionMost?: TransitionBounds;
  /** Left out: as many numbers as registers have room for. */
  readonly rangeOf?: NumberRanges;
}

/** What a round has changed. */
interface PolicyFlowsChange {
  /** Owners that want something else than before; an empty list: nothing any more. */
  readonly wanted: ReadonlyMap<Owner, readonly Flow[]>;
  /** Pods, `namespace/name`, whose `classesOf` or addresses may be others than before. */
  readonly subjects: ReadonlySet<string>;
}

/** The same in parts, each of which leads to those before it. */
interface PolicyFlowsRound {
  readonly wanted: readonly ReadonlyMap<Owner, NumberedRow | readonly Flow[]>[];
  /** After these, and all of it at once: rows that pods are led to and that say something else from now on. Of each owner as of `PolicyFlowsChange`. */
  readonly edited: ReadonlyMap<Owner, readonly Flow[]>;
  readonly subjects: ReadonlySet<string>;
}

/**
 * Who a local pod is to its entry flows. `free`: no policy isolates it. `closed`: nobody has decided about it, or there is no number for its class. Else the number of its
 * class in each direction that isolates it; a direction that is absent is free.
 */
export type PodClasses = 'free' | 'closed' | { readonly ingress?: number; readonly egress?: number };

export interface TransitionEnd {
  readonly matrix: FlowsMatrix;
  /** Its subjects are led elsewhere then: from copies of their classes. */
  readonly change: PolicyChange;
}

/** What holds between two rounds, as `DirectionTransition`. */
export interface PolicyTransition {
  readonly matrix: FlowsMatrix;
  /** From what was before. */
  readonly begin: PolicyChange;
  /** To what comes after it, one after another, each once the bridge has where all pods are led. */
  readonly ends: readonly TransitionEnd[];
  readonly kept: Readonly<Record<PolicyDirection, Partial<DirectionTransition>>>;
}

interface PolicyPlan extends PolicyFlowsRound {
  /** Pods that get other classes, `namespace/name`. */
  readonly moved: ReadonlySet<string>;
  readonly ends: PolicyTransition['ends'];
}

interface PolicyRoundOptions {
  /** So many flows may be edited in place; without it none is, and whatever changes has another number. */
  readonly editedMost?: number;
  readonly kept?: PolicyTransition['kept'];
}

type RoundEdits = Readonly<Record<PolicyDirection, readonly ClassEdit[]>>;

const noEdits: RoundEdits = { ingress: [], egress: [] };
const noKeys: DirectionKeys = { identities: new Set(), relations: new Set() };

/** No agent was here before. */
const noSurroundings: Surroundings = { adoptedAt: () => undefined, areAddressesKnown: () => false };

const transitionMost: TransitionBounds = { identities: 4_096, rows: 50_000 };

interface DecidedRows {
  readonly direction: PolicyDirection;
  readonly owner: Owner;
  /** Without ranges: a row of relations, which has no other. */
  readonly decision: PolicyDecision;
}

/**
 * From the rows of a matrix to flows by owner. Numbers stand for contents – a class, a decision – and never come to mean something else while
 * the bridge may have them. Each owner wants rows in one table, so that what is behind is there before what leads to it.
 *
 * Knows no clock and no switch. Of one round: `update`, write what it says, `written`; and `acknowledged`, now and then, by which numbers get free.
 */
export class PolicyFlows {
  readonly #directions: Readonly<Record<(typeof policyDirections)[number], DirectionFlows>>;
  readonly #pods = new Map<string, PodClasses>();
  /** Closed for want of a number. */
  readonly #starved = new Set<string>();
  #isEditing = false;
  /** Of peers that no engine has made. */
  #lastTransitional = 0;
  readonly #transitionMost: TransitionBounds;
  readonly #predecessor: Predecessor;

  constructor({ families, recovered = [], transitionMost: most = transitionMost, rangeOf }: PolicyFlowsOptions) {
    this.#transitionMost = most;
    const flows = [...recovered];
    const flowsOf = (direction: PolicyDirection): DirectionFlows => new DirectionFlows(direction, families, flows, rangeOf);
    this.#directions = { ingress: flowsOf('ingress'), egress: flowsOf('egress') };
    this.#predecessor = new Predecessor(this.#directions, () => --this.#lastTransitional);
  }

  /** Pods that a round leads elsewhere, of those that are led: by what the last one made of them, or as an earlier agent had them. */
  movedPods(...of: Parameters<Predecessor['movedPods']>): ReadonlySet<string> {
    return this.#predecessor.movedPods(...of);
  }

  /** Numbers of coarse parts that rows can be given now. */
  readonly coarseRooms: CoarseRooms = { ingress: this.#roomOf('ingress'), egress: this.#roomOf('egress') };

  #roomOf(direction: PolicyDirection): CoarseRooms[PolicyDirection] {
    const contents = () => this.#directions[direction].contents;
    return {
      isKnown: (set) => !contents().isFresh('coarse', set),
      get free() {
        return contents().lent.coarse.free;
      },
    };
  }

  /**
   * The flows of a round: where it moves pods between classes, the beginning of a transition, with the rounds that end it; else edits of rows in place
   * and rows with other numbers. Readers see nothing of it before `publish`.
   *
   * @param matrices as of the last round, and as of this one
   * @param editedMost number of flows that may be edited in place; asked only if no pod moves
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

  /** A whole round at once. @param matrix as `PolicyEngine` has it now @param change as of `round` */
  update(matrix: PolicyMatrix, change: PolicyChange): PolicyFlowsChange {
    const { wanted, subjects } = finish(this.round(matrix, change));
    this.publish(matrix, subjects);
    const flowsOf = (rows: NumberedRow | readonly Flow[]): readonly Flow[] =>
      'number' in rows ? [rows.rows.flowOf(rows.ip, rows.number)] : rows;
    return { wanted: new Map(wanted.flatMap((each) => [...each].map(([owner, rows]) => [owner, flowsOf(rows)] as const))), subjects };
  }

  /**
   * What has to hold while pods are led from one matrix to the next one, so that each packet meets what holds before it or after it; undefined if that needs
   * nothing. Its beginning is a round, and so is its end.
   */
  *transition(
    before: PolicyMatrix,
    coming: PolicyMatrix,
    changes: PolicyChange,
    surroundings: Surroundings = noSurroundings,
  ): Steps<PolicyTransition | undefined> {
    const seen = yield* this.#predecessor.seen(before, coming, surroundings);
    const { matrix: after, change } = this.#predecessor.withLingering<MatrixAfter>(coming, changes);
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
      freeClasses: flows.numbers.class.free,
    });
  }

  /**
   * Readers see nothing of it before `publish`.
   *
   * @param matrix as it is going to be
   * @param change since the last round, all of it: rows that are not named are taken for what they were
   */
  *round(coming: FlowsMatrix, changes: PolicyChange, { editedMost = 0, kept }: PolicyRoundOptions = {}): Steps<PolicyFlowsRound> {
    const { matrix, change } = this.#predecessor.withLingering(coming, changes);
    const pods = new Set([...change.subjects, ...this.#starved]);
    const { ingress, egress } = this.#directions;
    const edits = editedMost > 0 ? yield* this.#edits(matrix, pods, change, editedMost) : noEdits;
    const into = yield* ingress.round(matrix, pods, change.ingress, { ...kept?.ingress, edits: edits.ingress });
    const out = yield* egress.round(matrix, pods, change.egress, { ...kept?.egress, edits: edits.egress });
    this.#isEditing = false;
    this.#predecessor.released();
    const wanted = [into.rows, out.rows, into.addresses, out.addresses, into.networks, out.networks];
    return { wanted, edited: new Map([...into.edited, ...out.edited]), subjects: pods };
  }

  /** Whether a round is under way that edits rows in place: whose class is edited is not known before its end, and no pod may be admitted. */
  get isEditing(): boolean {
    return this.#isEditing;
  }

  /** All of them or none: what a policy says in both directions and of several classes changes at once. */
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

  /** Both directions of a pod change in the same way: a pod that is led to another class in one direction is so in the other one. */
  #movesOf(matrix: FlowsMatrix, pods: ReadonlySet<string>, change: PolicyChange): Readonly<Record<PolicyDirection, readonly ClassMove[]>> {
    const moves = {
      ingress: this.#directions.ingress.movesOf(matrix, pods, change.ingress),
      egress: this.#directions.egress.movesOf(matrix, pods, change.egress),
    };
    for (let before = -1; before !== moves.ingress.length + moves.egress.length; ) {
      before = moves.ingress.length + moves.egress.length;
      for (const [direction, other] of [['ingress', 'egress'] as const, ['egress', 'ingress'] as const]) {
        const inOther = new Set(moves[other].flatMap((move) => move.pods));
        const isAlike = (pod: string): boolean => inOther.has(pod) || !this.#directions[other].isMoved(matrix, pod);
        moves[direction] = moves[direction].filter((move) => move.pods.every(isAlike));
      }
    }
    return moves;
  }

  /** @param matrix as of the last round @param pods its subjects */
  publish({ subjects }: Pick<PolicyMatrix, 'subjects'>, pods: Iterable<string>): void {
    for (const pod of pods) this.#publishPod(pod, subjects.get(pod));
  }

  /** A pod is of classes that others of the node are of, between rounds or in the middle of one. @param subject its row, as `PolicyEngine.admit` says */
  admit(pod: string, subject: MatrixSubject): void {
    for (const direction of policyDirections) this.#directions[direction].admit(pod, subject[direction]);
    this.#publishPod(pod, subject);
  }

  #publishPod(pod: string, subject: MatrixSubject | undefined): void {
    const classes = subject && this.#numbersOf(pod, subject);
    if (classes) this.#pods.set(pod, classes);
    else this.#pods.delete(pod);
    if (classes === 'closed') this.#starved.add(pod);
    else this.#starved.delete(pod);
  }

  /** @param pod `namespace/name` of a local pod; one that the matrix does not have is closed */
  classesOf(pod: string): PodClasses {
    return this.#pods.get(pod) ?? 'closed';
  }

  #numbersOf(pod: string, subject: MatrixSubject): PodClasses {
    const classes: { ingress?: number; egress?: number } = {};
    for (const direction of policyDirections) {
      if (!subject[direction]) continue;
      const number = this.#directions[direction].classOf(pod);
      if (number === undefined) return 'closed';
      classes[direction] = number;
    }
    return Object.keys(classes).length === 0 ? 'free' : classes;
  }

  /** Owners of rows that say what becomes of a packet, with what they are made of. @param matrix as of the last `update` */
  *decided(matrix: PolicyMatrix): Generator<DecidedRows> {
    for (const direction of policyDirections)
      for (const [owner, decision] of this.#directions[direction].decided(matrix[direction])) yield { direction, owner, decision };
  }

  /** What `update` has said since the last call is in the wanted state of the bridge from this revision on. */
  written(revision: number): void {
    for (const numbers of this.#pools()) numbers.written(revision);
  }

  /**
   * The bridge holds this revision of the wanted state, and nothing that it does not want of policy any more.
   *
   * @param nowMs from any fixed moment
   * @returns whether what went without a number may get one now: then `update` is to be called
   */
  acknowledged(revision: number, nowMs: number): boolean {
    let isFreed = false;
    for (const numbers of this.#pools()) isFreed = numbers.acknowledged(revision, nowMs) || isFreed;
    return isFreed && this.problems.length > 0;
  }

  /**
   * All sources are in step, and the bridge has nothing left of policy that nobody wants: numbers of an earlier agent that nobody asked for are free.
   *
   * @returns whether a round has something to do now
   */
  leftoversGone(): boolean {
    for (const numbers of this.#pools()) numbers.leftoversGone();
    return this.#predecessor.swept() || this.problems.length > 0;
  }

  /** What is denied that policies allow, because numbers have run out; in words. */
  get problems(): readonly string[] {
    const rows = policyDirections.flatMap((direction) => {
      const { starved } = this.#directions[direction];
      return starved === 0 ? [] : [`${direction}: ${starved} rows have no number: what they would allow is denied`];
    });
    return this.#starved.size === 0 ? rows : [`${this.#starved.size} pods are closed: there is no number for their class`, ...rows];
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

/** Local pods, some of which are of the copy of a class. */
function withCopies(
  subjects: RowsByKey<MatrixSubject>,
  copies: Readonly<Record<PolicyDirection, DirectionTransition['copies'] | undefined>>,
): RowsByKey<MatrixSubject> {
  return {
    get: (pod) => {
      const subject = subjects.get(pod);
      const [ingress, egress] = [copies.ingress?.get(pod), copies.egress?.get(pod)];
      return subject && { ...subject, ...(ingress && { ingress }), ...(egress && { egress }) };
    },
  };
}
