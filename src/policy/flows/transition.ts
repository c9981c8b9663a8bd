import { type Steps, tinyWork } from '../../base/async/steps.ts';
import type { PolicyChange } from '../engine/policy-engine.ts';
import {
  classesIn,
  classIdOf,
  haveSameClasses,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  relationKey,
  relationKeyOf,
  type SubjectClass,
} from '../matrix/matrix.ts';
import type { DirectionKeys, DirectionRows, FlowsMatrix, RowsBefore } from './flows-matrix.ts';
import { identityText, noPeer } from './installed-identities.ts';
import {
  decisionAt,
  has,
  type IdentityMove,
  identityMoves,
  isDecidedOtherwise,
  losesRow,
  type MovedClasses,
  movedClasses,
  noIdentity,
  type RoundChange,
  undistinguished,
} from './round-moves.ts';

export interface TransitionEnd {
  readonly matrix: FlowsMatrix;
  /** Changes of the end. The entry flows of its subjects change then: from copies to the classes themselves. */
  readonly change: PolicyChange;
}

/** Matrix between two rounds; see `DirectionTransition`. */
export interface PolicyTransition {
  readonly matrix: FlowsMatrix;
  /** Changes from the matrix before the round. */
  readonly begin: PolicyChange;
  /** Changes to the matrices that follow, one after another, each once the bridge has the entry flows of all pods. */
  readonly ends: readonly TransitionEnd[];
  readonly kept: Readonly<Record<PolicyDirection, Partial<DirectionTransition>>>;
}

/**
 * State while entry flows change from the classes of one round to those of the next, for rounds that also change identities of addresses.
 * Each identity that an address has meanwhile has two meanings: in classes that pods leave it has the decision from before, in all others
 * the decision from after.
 */
export interface DirectionTransition extends DirectionRows {
  /**
   * Classes that stay in use until then, with or without pods: previous classes that the next round does not have, and classes with a copy.
   */
  readonly former: ReadonlySet<SubjectClass>;
  /** Pods that use copies of classes, and the classes themselves afterwards: the copy of each class. */
  readonly copies: ReadonlyMap<string, ReadonlyMap<SubjectClass, SubjectClass>>;
  /** Identities of the next round that no address has until then. */
  readonly coming: readonly PeerIdentity[];
  /**
   * Addresses that no longer have a row of their own, with the identity of their network. They keep a row while pods use copies, because no
   * row is removed before the entry flows of these pods have changed.
   */
  readonly lingering: ReadonlyMap<string, PeerIdentity>;
  /** Keys of relations that give their contents another decision than these have by themselves. */
  readonly passing: ReadonlySet<string>;
  /** Rows that differ from those before. */
  readonly begin: DirectionKeys;
  /** Rows that change once no entry flow uses a previous class. */
  readonly end: DirectionKeys;
}

/** Bounds of the rows that exist only during a transition, in a direction. */
export interface TransitionBounds {
  readonly identities: number;
  readonly rows: number;
}

interface TransitionOptions extends RoundChange {
  /** Reports whether the bridge cannot have the number of an identity or of a class. */
  readonly isFresh: (content: PeerIdentity | SubjectClass) => boolean;
  /** Reports whether the row of an address was made by this agent; else it is that of a previous agent. */
  readonly isIdentified: (cidr: string) => boolean;
  /**
   * Approximate maximum number of identities that no round has, and of rows. Addresses beyond it are not distinguished meanwhile: less is
   * allowed, never more.
   */
  readonly most: TransitionBounds;
  /** Returns ids for such identities and copies, each only once. */
  readonly nextId: () => number;
  /** Returns the number of free numbers for classes of the same tier. */
  readonly freeClasses: (of: SubjectClass) => number;
}

/**
 * Computes a transition.
 *
 * @returns undefined if none is needed: no address changes its identity, or no pod leaves a class and pods that join one decide about obsolete rows of
 * addresses like about the networks that hold them
 */
export function* transitionOf(options: TransitionOptions): Steps<DirectionTransition | undefined> {
  const classes = movedClasses(options);
  if (options.changed.identities.size === 0 || classes.left.size + classes.joined.size + classes.added.size === 0) return undefined;
  if (classes.left.size === 0 && !(yield* losesRow(options))) return undefined;
  const moves = yield* identityMoves(options);
  if (classes.left.size === 0 && !moves.some((move) => isDecidedOtherwise(options, classes, move))) return undefined;
  const middle = new Middle(options, classes);
  const arrivals = Map.groupBy(moves, ({ will }) => identityText(will));
  for (const move of moves) {
    middle.place(move, {
      isOnly: arrivals.get(identityText(move.will))?.length === 1,
      isLeft: !arrivals.has(identityText(move.was)),
    });
    yield;
  }
  if (middle.isTrivial) return undefined;
  yield* middle.copyContested();
  return yield* middle.rows();
}

/** Class in which one identity needs two decisions: one for pods that leave the class, another for pods that join it. */
interface Contest {
  readonly subject: SubjectClass;
  readonly between: PeerIdentity;
}

/** Makes the rows of a transition, one move of addresses after another. */
class Middle {
  readonly #options: TransitionOptions;
  readonly #classes: MovedClasses;
  readonly #before: RowsBefore;
  readonly #after: RowsBefore;
  /** Identities of addresses that do not have their next identity yet. */
  readonly #identities = new Map<string, PeerIdentity>();
  /** Addresses of these that keep their previous identity. */
  readonly #staying = new Set<string>();
  readonly #relations = new Map<string, PolicyDecision>();
  readonly #installing: PeerIdentity[] = [];
  readonly #contests: Contest[] = [];
  /** Identities with two meanings, with the identity that replaces them. */
  readonly #between: { readonly between: PeerIdentity; readonly will: PeerIdentity }[] = [];
  readonly #copies = new Map<SubjectClass, SubjectClass>();
  /** Addresses that will have no row of their own, with their next identity. */
  readonly #rowless = new Map<string, PeerIdentity>();

  constructor(options: TransitionOptions, classes: MovedClasses) {
    this.#options = options;
    this.#classes = classes;
    this.#before = options.before[options.direction];
    this.#after = options.after[options.direction];
  }

  get isTrivial(): boolean {
    return this.#identities.size === 0 && this.#relations.size === 0;
  }

  /**
   * Decides how the addresses of a move change.
   *
   * @param isOnly true if all addresses that get the next identity come from one identity
   * @param isLeft true if no address gets the previous identity
   */
  place(move: IdentityMove, { isOnly, isLeft }: { readonly isOnly: boolean; readonly isLeft: boolean }): void {
    const { was, will } = move;
    if (identityText(was) === identityText(will) || this.#isSettled(move)) this.#putAt(move, will);
    else if (isOnly && this.#mayArrive(move)) this.#arrive(move);
    else if (isLeft && this.#mayStay(move)) this.#stay(move);
    else if (this.#mayStandBetween) this.#standBetween(move);
    else this.#putAt(move, undistinguished);
  }

  /** Reports whether the next identity has the decision of the previous one in each class that pods leave. */
  #isSettled({ was, will }: IdentityMove): boolean {
    const { held, isFresh } = this.#options;
    const isReserved = [noIdentity, undistinguished].some((each) => identityText(each) === identityText(will));
    const isKnown = isReserved || held.holdersOf(will) > 0 || isFresh(will);
    return isKnown && [...this.#classes.left].every((each) => this.#goesOnSaying(each, was, will));
  }

  #goesOnSaying(subject: SubjectClass, was: PeerIdentity, will: PeerIdentity): boolean {
    return decisionAt(has(this.#after, subject) ? this.#after : this.#before, subject, will) === decisionAt(this.#before, subject, was);
  }

  /** Reports whether no address has the next identity yet, so that its rows in obsolete classes may have any decision. */
  #mayArrive({ was, will }: IdentityMove): boolean {
    const staying = [...this.#classes.left].filter((each) => has(this.#after, each));
    return this.#options.isFresh(will) && staying.every((each) => this.#goesOnSaying(each, was, will));
  }

  #arrive(move: IdentityMove): void {
    for (const subject of this.#classes.left)
      if (!has(this.#after, subject)) this.#relate(subject, move.will, decisionAt(this.#before, subject, move.was));
    this.#putAt(move, move.will);
  }

  /**
   * Reports whether all addresses with the previous identity get the same next one, so that its rows in new classes may have any decision.
   */
  #mayStay({ was, will, cidrs, areHolders }: IdentityMove): boolean {
    if (!areHolders || this.#options.held.holdersOf(was) !== cidrs.length) return false;
    return [...this.#classes.joined].every((each) => decisionAt(this.#before, each, was) === decisionAt(this.#after, each, will));
  }

  #stay({ was, will, cidrs }: IdentityMove): void {
    this.#installing.push(will);
    for (const subject of this.#classes.added) this.#relate(subject, was, decisionAt(this.#after, subject, will));
    for (const cidr of cidrs) {
      this.#identities.set(cidr, was);
      this.#staying.add(cidr);
      if (!this.#after.identities.get(cidr)) this.#rowless.set(cidr, will);
    }
  }

  get #mayStandBetween(): boolean {
    const { identities, rows } = this.#options.most;
    return this.#between.length < identities && this.#relations.size < rows;
  }

  /** Uses an identity with both meanings. */
  #standBetween(move: IdentityMove): void {
    const { was, will } = move;
    const terms = [...was.coarse.terms, '', ...was.fine.terms, '', ...will.coarse.terms, '', ...will.fine.terms];
    const between = this.#fresh((id): PeerIdentity => ({ coarse: will.coarse, fine: { id, terms: [`between ${id}`, ...terms] } }));
    this.#between.push({ between, will });
    for (const subject of this.#classes.left) {
      const former = decisionAt(this.#before, subject, was);
      this.#relate(subject, between, former);
      if (this.#classes.joined.has(subject) && former !== decisionAt(this.#after, subject, will)) this.#contests.push({ subject, between });
    }
    for (const subject of this.#classesAfter()) if (!this.#classes.left.has(subject)) this.#relateNext(subject, between, will);
    this.#putAt(move, between);
  }

  /** Makes a content that no previous agent can have made. */
  #fresh<C extends PeerIdentity | SubjectClass>(make: (id: number) => C): C {
    for (;;) {
      const made = make(this.#options.nextId());
      if (this.#options.isFresh('coarse' in made ? { coarse: noPeer, fine: made.fine } : made)) return made;
    }
  }

  /**
   * Relates an identity to a class as after the round. Without a row for exactly this identity its coarse part decides, which is the same
   * in both.
   */
  #relateNext(subject: SubjectClass, between: PeerIdentity, will: PeerIdentity, as = subject): void {
    if (will.fine.id !== noPeer.id) this.#relate(as, between, this.#after.relations.get(relationKey(subject, will.coarse, will.fine)));
  }

  /**
   * Makes copies of contested classes with the decisions from after the round, for pods that join the class. If there is no room for
   * copies, both they and pods that leave get the decision for addresses that are not distinguished.
   */
  *copyContested(): Steps {
    const contested = new Set(this.#contests.map(({ subject }) => subject));
    if (contested.size === 0) return;
    const rows = yield* this.#rowsOf(contested);
    if (!this.#haveNumbers([...contested, ...this.#classes.added]) || this.#relations.size + rows.size > this.#options.most.rows) {
      for (const { subject, between } of this.#contests) this.#relate(subject, between, decisionAt(this.#before, subject, undistinguished));
      return;
    }
    const copies = new Map<number, SubjectClass>();
    for (const subject of contested) {
      const copy = this.#fresh(
        (id): SubjectClass => ({
          id,
          text: `copy ${id} of ${subject.text}`,
          isolatedBy: subject.isolatedBy,
          ...(subject.tier && { tier: subject.tier }),
        }),
      );
      this.#copies.set(subject, copy);
      copies.set(subject.id, copy);
      for (const { between, will } of this.#between) this.#relateNext(subject, between, will, copy);
    }
    for (const [key, decision] of rows) {
      const copy = copies.get(classIdOf(key));
      if (copy) this.#relations.set(relationKeyOf(copy, key), decision);
    }
  }

  #haveNumbers(classes: readonly SubjectClass[]): boolean {
    return classes.every((each) => classes.filter(({ tier }) => tier === each.tier).length <= this.#options.freeClasses(each));
  }

  /** Returns the rows of classes for identities with one meaning, before and after. */
  *#rowsOf(classes: ReadonlySet<SubjectClass>): Steps<ReadonlyMap<string, PolicyDecision>> {
    const ids = new Set([...classes].map(({ id }) => id));
    const rows = new Map<string, PolicyDecision>();
    let work = 0;
    for (const { relations } of [this.#before, this.#after])
      for (const [key, decision] of relations) {
        if (++work % tinyWork === 0) yield;
        if (ids.has(classIdOf(key))) rows.set(key, decision);
      }
    return rows;
  }

  #classesAfter(): ReadonlySet<SubjectClass> {
    const { after, direction } = this.#options;
    return new Set([...after.subjects.values()].flatMap((subject) => classesIn(subject, direction)));
  }

  #putAt({ will, cidrs }: IdentityMove, identity: PeerIdentity): void {
    if (identity !== will) this.#installing.push(will);
    for (const cidr of cidrs) {
      const next = this.#after.identities.get(cidr);
      if (!next) this.#rowless.set(cidr, will);
      if (!next || identityText(next) !== identityText(identity)) this.#identities.set(cidr, identity);
    }
  }

  /** Adds a row for exactly this identity, whatever its coarse part has. */
  #relate(subject: SubjectClass, { coarse, fine }: PeerIdentity, decision: PolicyDecision | undefined): void {
    if (decision) this.#relations.set(relationKey(subject, coarse, fine), decision);
  }

  *rows(): Steps<DirectionTransition> {
    const { changed, isIdentified } = this.#options;
    const [come, gone] = [new Set(this.#relations.keys()), new Set(this.#relations.keys())];
    let work = 0;
    for (const key of changed.relations) {
      (this.#after.relations.get(key) ? come : gone).add(key);
      if (++work % tinyWork === 0) yield;
    }
    const { identities, relations } = this.#after;
    return {
      identities: { get: (cidr) => this.#identities.get(cidr) ?? identities.get(cidr) },
      relations: { get: (key) => this.#relations.get(key) ?? relations.get(key) },
      former: new Set([...this.#classes.left].filter((each) => !has(this.#after, each) || this.#copies.has(each))),
      copies: this.#copiesByPod(),
      coming: this.#installing,
      lingering: this.#copies.size > 0 ? this.#rowless : new Map(),
      passing: new Set(this.#relations.keys()),
      begin: {
        identities: new Set([...changed.identities].filter((cidr) => !this.#staying.has(cidr) || !isIdentified(cidr))),
        relations: come,
      },
      end: { identities: new Set(this.#identities.keys()), relations: gone },
    };
  }

  #copiesByPod(): DirectionTransition['copies'] {
    const { direction, before, after, pods } = this.#options;
    const copies = new Map<string, ReadonlyMap<SubjectClass, SubjectClass>>();
    if (this.#copies.size === 0) return copies;
    for (const pod of pods) {
      const [was, will] = [before.subjects.get(pod), after.subjects.get(pod)];
      if (haveSameClasses(was, will, direction)) continue;
      if (classesIn(will, direction).some((each) => this.#copies.has(each))) copies.set(pod, this.#copies);
    }
    return copies;
  }
}
