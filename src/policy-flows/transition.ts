import { type Steps, tinyWork } from '../async/steps.ts';
import { cidrOf, parseCidr } from '../net/ip.ts';
import {
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  type PolicyMatrix,
  relationKey,
  type SubjectClass,
} from '../policy-matrix/matrix.ts';
import type { DirectionKeys, DirectionRows, RowsByKey } from './flows-matrix.ts';
import { type HeldIdentities, identityText, noPeer } from './held-identities.ts';

/**
 * What holds while pods are led from the classes of a round to those of the next one, where that gives addresses other identities as well. Each identity that an
 * address has meanwhile stands for two: under a class that pods leave it says what it said before, under all others what it is going to say.
 */
export interface DirectionTransition extends DirectionRows {
  /** Classes that the next round does not have, and that have rows until then. */
  readonly former: ReadonlySet<SubjectClass>;
  /** Identities that the next round has, and no address until then. */
  readonly coming: readonly PeerIdentity[];
  /** Rows that are others than before. */
  readonly begin: DirectionKeys;
  /** Rows that will be others once no pod is led to a former class. */
  readonly end: DirectionKeys;
}

interface TransitionOptions {
  readonly direction: PolicyDirection;
  readonly before: PolicyMatrix;
  readonly after: PolicyMatrix;
  /** Local ones that have come, gone or changed. */
  readonly pods: Iterable<string>;
  readonly changed: DirectionKeys;
  /** As of before. */
  readonly held: Pick<HeldIdentities, 'holdersOf' | 'prefixLengths'>;
  /** Whether the bridge cannot have the number of an identity. */
  readonly isFresh: (identity: PeerIdentity) => boolean;
  /** So many identities may be made that no round has; and names for them, each of which is asked for once. */
  readonly most: number;
  readonly nextId: () => number;
}

/** So many rows are there for the transition alone. What is beyond is in no term meanwhile: less is allowed, and never more. */
const transitionRowsMost = 50_000;

/** @returns undefined where nothing stands between: no pod leaves a class, or no address gets another identity */
export function* transitionOf(options: TransitionOptions): Steps<DirectionTransition | undefined> {
  const classes = movedClasses(options);
  if (classes.left.size === 0 || options.changed.identities.size === 0) return undefined;
  const middle = new Middle(options, classes);
  const moves = yield* identityMoves(options);
  const arrivals = Map.groupBy(moves, ({ will }) => identityText(will));
  for (const move of moves) {
    middle.place(move, {
      isOnly: arrivals.get(identityText(move.will))?.length === 1,
      isLeft: !arrivals.has(identityText(move.was)),
    });
    yield;
  }
  return middle.isTrivial ? undefined : yield* middle.rows();
}

interface MovedClasses {
  /** Pods leave them. */
  readonly left: ReadonlySet<SubjectClass>;
  /** Pods come to them, and they were there before. */
  readonly joined: ReadonlySet<SubjectClass>;
  readonly added: ReadonlySet<SubjectClass>;
}

function movedClasses({ direction, before, after, pods }: TransitionOptions): MovedClasses {
  const [left, joined, added] = [new Set<SubjectClass>(), new Set<SubjectClass>(), new Set<SubjectClass>()];
  for (const pod of pods) {
    const [was, will] = [before.subjects.get(pod), after.subjects.get(pod)];
    const [from, to] = [was?.[direction], will?.[direction]];
    if (from === to) continue;
    if (from && will) left.add(from);
    if (to) (has(before[direction], to) ? joined : added).add(to);
  }
  return { left, joined, added };
}

/** Addresses that go from one identity to another one. */
interface IdentityMove {
  readonly was: PeerIdentity;
  readonly will: PeerIdentity;
  readonly cidrs: string[];
  /** Whether each of these had a row of its own. */
  areHolders: boolean;
}

function* identityMoves({ direction, before, after, changed, held }: TransitionOptions): Steps<readonly IdentityMove[]> {
  const moves = new Map<string, IdentityMove>();
  const lengths = new Set(held.prefixLengths());
  for (const cidr of changed.identities) lengths.add(Number(cidr.slice(cidr.indexOf('/') + 1)));
  const longestFirst = [...lengths].sort((a, b) => b - a);
  let work = 0;
  for (const cidr of changed.identities) {
    if (++work % tinyWork === 0) yield;
    const own = before[direction].identities.get(cidr);
    const was = own ?? identityWithin(cidr, before[direction].identities, longestFirst);
    const will = after[direction].identities.get(cidr) ?? identityWithin(cidr, after[direction].identities, longestFirst);
    const key = `${identityText(was)} ${identityText(will)}`;
    const move = moves.get(key) ?? { was, will, cidrs: [], areHolders: true };
    moves.set(key, move);
    move.cidrs.push(cidr);
    if (!own) move.areHolders = false;
  }
  return [...moves.values()];
}

/** What a network has that has no row of its own. */
function identityWithin(text: string, rows: RowsByKey<PeerIdentity>, longestFirst: readonly number[]): PeerIdentity {
  const { network, prefixLength } = parseCidr(text);
  for (const length of longestFirst) {
    const found = length < prefixLength ? rows.get(cidrOf(network, length).text) : undefined;
    if (found) return found;
  }
  return nobody;
}

const nobody: PeerIdentity = { coarse: noPeer, fine: noPeer };

/** Makes the rows of a transition, one move of addresses after another. */
class Middle {
  readonly #options: TransitionOptions;
  readonly #classes: MovedClasses;
  readonly #before: PolicyMatrix[PolicyDirection];
  readonly #after: PolicyMatrix[PolicyDirection];
  /** By address, where it is not yet what it will be. */
  readonly #identities = new Map<string, PeerIdentity>();
  /** Those of them that are what they were. */
  readonly #staying = new Set<string>();
  readonly #relations = new Map<string, PolicyDecision>();
  readonly #coming: PeerIdentity[] = [];
  #made = 0;

  constructor(options: TransitionOptions, classes: MovedClasses) {
    this.#options = options;
    this.#classes = classes;
    this.#before = options.before[options.direction];
    this.#after = options.after[options.direction];
  }

  get isTrivial(): boolean {
    return this.#identities.size === 0 && this.#relations.size === 0;
  }

  /** @param isOnly whether all that come to have the next identity come from one @param isLeft whether none comes to have the former one */
  place(move: IdentityMove, { isOnly, isLeft }: { readonly isOnly: boolean; readonly isLeft: boolean }): void {
    const { was, will } = move;
    if (identityText(was) === identityText(will) || this.#isSettled(move)) this.#putAt(move, will);
    else if (isOnly && this.#mayArrive(move)) this.#arrive(move);
    else if (isLeft && this.#mayStay(move)) this.#stay(move);
    else if (this.#made < this.#options.most && this.#relations.size < transitionRowsMost) this.#standBetween(move);
    else this.#putAt(move, nobody);
  }

  /** Under each class that pods leave the next identity says what the former one said. */
  #isSettled({ was, will }: IdentityMove): boolean {
    const { held, isFresh } = this.#options;
    const isKnown = identityText(will) === identityText(nobody) || held.holdersOf(will) > 0 || isFresh(will);
    return isKnown && [...this.#classes.left].every((each) => this.#goesOnSaying(each, was, will));
  }

  #goesOnSaying(subject: SubjectClass, was: PeerIdentity, will: PeerIdentity): boolean {
    return decisionAt(has(this.#after, subject) ? this.#after : this.#before, subject, will) === decisionAt(this.#before, subject, was);
  }

  /** Nobody has the next identity yet: under classes that go its rows may say anything. */
  #mayArrive({ was, will }: IdentityMove): boolean {
    const staying = [...this.#classes.left].filter((each) => has(this.#after, each));
    return this.#options.isFresh(will) && staying.every((each) => this.#goesOnSaying(each, was, will));
  }

  #arrive(move: IdentityMove): void {
    for (const subject of this.#classes.left)
      if (!has(this.#after, subject)) this.#relate(subject, move.will, decisionAt(this.#before, subject, move.was));
    this.#putAt(move, move.will);
  }

  /** All that have the former identity come to have one other: under classes that are new its rows may say anything. */
  #mayStay({ was, will, cidrs, areHolders }: IdentityMove): boolean {
    if (!areHolders || this.#options.held.holdersOf(was) !== cidrs.length) return false;
    return [...this.#classes.joined].every((each) => decisionAt(this.#before, each, was) === decisionAt(this.#after, each, will));
  }

  #stay({ was, will, cidrs }: IdentityMove): void {
    this.#coming.push(will);
    for (const subject of this.#classes.added) this.#relate(subject, was, decisionAt(this.#after, subject, will));
    for (const cidr of cidrs) {
      this.#identities.set(cidr, was);
      this.#staying.add(cidr);
    }
  }

  /** An identity that stands for both. */
  #standBetween(move: IdentityMove): void {
    const { was, will } = move;
    const terms = [...was.coarse.terms, '', ...was.fine.terms, '', ...will.coarse.terms, '', ...will.fine.terms];
    const id = this.#options.nextId();
    const between: PeerIdentity = { coarse: will.coarse, fine: { id, terms: [`between ${id}`, ...terms] } };
    this.#made++;
    for (const subject of this.#classes.left) this.#relate(subject, between, this.#ofLeft(subject, was, will));
    for (const subject of this.#classesAfter()) {
      if (this.#classes.left.has(subject) || will.fine.id === noPeer.id) continue;
      this.#relate(subject, between, this.#after.relations.get(relationKey(subject, will.coarse, will.fine)));
    }
    this.#putAt(move, between);
  }

  /** Where pods come to a class that others leave, and both would have to be told something else, everybody's is right for both. */
  #ofLeft(subject: SubjectClass, was: PeerIdentity, will: PeerIdentity): PolicyDecision | undefined {
    const former = decisionAt(this.#before, subject, was);
    const isContested = this.#classes.joined.has(subject) && former !== decisionAt(this.#after, subject, will);
    return isContested ? decisionAt(this.#before, subject, nobody) : former;
  }

  #classesAfter(): ReadonlySet<SubjectClass> {
    const { after, direction } = this.#options;
    return new Set([...after.subjects.values()].flatMap((subject) => subject[direction] ?? []));
  }

  #putAt({ will, cidrs }: IdentityMove, identity: PeerIdentity): void {
    if (identity !== will) this.#coming.push(will);
    for (const cidr of cidrs) {
      const next = this.#after.identities.get(cidr);
      if (!next || identityText(next) !== identityText(identity)) this.#identities.set(cidr, identity);
    }
  }

  /** A row of its own for exactly this identity, whatever its coarse part has. */
  #relate(subject: SubjectClass, { coarse, fine }: PeerIdentity, decision: PolicyDecision | undefined): void {
    if (decision) this.#relations.set(relationKey(subject, coarse, fine), decision);
  }

  *rows(): Steps<DirectionTransition> {
    const { changed } = this.#options;
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
      former: new Set([...this.#classes.left].filter((each) => !has(this.#after, each))),
      coming: this.#coming,
      begin: { identities: new Set([...changed.identities].filter((cidr) => !this.#staying.has(cidr))), relations: come },
      end: { identities: new Set(this.#identities.keys()), relations: gone },
    };
  }
}

function has({ relations }: PolicyMatrix[PolicyDirection], subject: SubjectClass): boolean {
  return relations.get(relationKey(subject)) !== undefined;
}

function decisionAt(
  { relations }: PolicyMatrix[PolicyDirection],
  subject: SubjectClass,
  identity: PeerIdentity,
): PolicyDecision | undefined {
  const { coarse, fine } = identity;
  const exact = fine.id === noPeer.id ? undefined : relations.get(relationKey(subject, coarse, fine));
  const ofCoarse = coarse.id === noPeer.id ? undefined : relations.get(relationKey(subject, coarse));
  return exact ?? ofCoarse ?? relations.get(relationKey(subject));
}
