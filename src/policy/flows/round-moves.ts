import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { cidrOf, parseCidr } from '../../base/net/ip.ts';
import {
  classesIn,
  haveSameClasses,
  type MatrixSubject,
  type PeerIdentity,
  type PolicyDecision,
  type PolicyDirection,
  relationKey,
  type SubjectClass,
  unnumbered,
} from '../matrix/matrix.ts';
import type { DirectionKeys, DirectionRows, MatrixAfter, MatrixBefore, RowsByKey } from './flows-matrix.ts';
import { type HeldIdentities, identityText, noPeer } from './installed-identities.ts';

/** Change of one direction from one round to the next. */
export interface RoundChange {
  readonly direction: PolicyDirection;
  readonly before: MatrixBefore;
  readonly after: MatrixAfter;
  /** Local pods that were added, removed or changed. */
  readonly pods: Iterable<string>;
  readonly changed: DirectionKeys;
  /** Identities before the round. */
  readonly held: Pick<HeldIdentities, 'holdersOf' | 'prefixLengths'>;
}

/** Reports whether an address loses its own row. The row is removed after the entry flows of the round are applied. */
export function* losesRow({ direction, before, after, changed }: RoundChange): Steps<boolean> {
  let work = 0;
  for (const cidr of changed.identities) {
    if (before[direction].identities.get(cidr) && !after[direction].identities.get(cidr)) return true;
    if (++work % tinyWork === 0) yield;
  }
  return false;
}

/** Reports whether a class that pods join has different decisions for the previous and the next identity of addresses that lose their rows. */
export function isDecidedOtherwise(
  { direction, after }: RoundChange,
  { joined, added }: MovedClasses,
  { was, will, cidrs }: IdentityMove,
): boolean {
  const rows = after[direction];
  return (
    cidrs.some((cidr) => !rows.identities.get(cidr)) &&
    [...joined, ...added].some((subject) => decisionAt(rows, subject, was) !== decisionAt(rows, subject, will))
  );
}

export interface MovedClasses {
  /** Classes that pods leave. */
  readonly left: ReadonlySet<SubjectClass>;
  /** Classes that pods join and that existed before. */
  readonly joined: ReadonlySet<SubjectClass>;
  readonly added: ReadonlySet<SubjectClass>;
}

/** A pod of which any class changes leaves and joins all its classes: one packet must not meet tiers from before and from after. */
export function movedClasses({ direction, before, after, pods }: RoundChange): MovedClasses {
  const [left, joined, added] = [new Set<SubjectClass>(), new Set<SubjectClass>(), new Set<SubjectClass>()];
  const movers = new Set<MatrixSubject>();
  for (const pod of pods) {
    const [was, will] = [before.subjects.get(pod), after.subjects.get(pod)];
    if (haveSameClasses(was, will, direction)) continue;
    if (will) for (const from of classesIn(was, direction)) left.add(from);
    for (const to of classesIn(will, direction)) (has(before[direction], to) ? joined : added).add(to);
    if (will) movers.add(will);
  }
  const keepers = [...after.subjects.values()].filter((each) => !movers.has(each) && classesIn(each, direction).length > 1);
  spread(left, keepers, direction);
  return { left, joined, added };
}

/** Extends classes with two meanings to all tiers of the pods that keep one of them: all tiers of such a pod change at the same moment. */
function spread(left: Set<SubjectClass>, keepers: readonly MatrixSubject[], direction: PolicyDirection): void {
  for (let size = -1; size !== left.size; ) {
    size = left.size;
    for (const keeper of keepers) {
      const classes = classesIn(keeper, direction);
      if (classes.some((each) => left.has(each))) for (const each of classes) left.add(each);
    }
  }
}

/** Addresses that change from one identity to another. */
export interface IdentityMove {
  readonly was: PeerIdentity;
  readonly will: PeerIdentity;
  readonly cidrs: string[];
  /** True if each of the addresses had a row of its own. */
  areHolders: boolean;
}

export function* identityMoves({ direction, before, after, changed, held }: RoundChange): Steps<readonly IdentityMove[]> {
  const moves = new Map<string, IdentityMove>();
  const longestFirst = lengthsOf(held.prefixLengths(), changed.identities);
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

/** Returns the prefix lengths in use and those of `cidrs`, the longest first. */
export function lengthsOf(held: Iterable<number>, cidrs: Iterable<string>): readonly number[] {
  const lengths = new Set(held);
  for (const cidr of cidrs) lengths.add(Number(cidr.slice(cidr.indexOf('/') + 1)));
  return [...lengths].sort((a, b) => b - a);
}

/** Returns the identity of a network without a row of its own. */
export function identityWithin(text: string, rows: RowsByKey<PeerIdentity>, longestFirst: readonly number[]): PeerIdentity {
  const { network, prefixLength } = parseCidr(text);
  for (const length of longestFirst) {
    const found = length < prefixLength ? rows.get(cidrOf(network, length).text) : undefined;
    if (found) return found;
  }
  return noIdentity;
}

export const noIdentity: PeerIdentity = { coarse: noPeer, fine: noPeer };
/** Identity of addresses that get none of their own. */
export const undistinguished: PeerIdentity = { coarse: unnumbered, fine: noPeer };

export function has({ relations }: DirectionRows, subject: SubjectClass): boolean {
  return relations.get(relationKey(subject)) !== undefined;
}

export function decisionAt({ relations }: DirectionRows, subject: SubjectClass, identity: PeerIdentity): PolicyDecision | undefined {
  const { coarse, fine } = identity;
  const exact = relations.get(relationKey(subject, coarse, fine)); // an earlier transition may have one for an identity with a coarse part only
  const ofCoarse = coarse.id === noPeer.id ? undefined : relations.get(relationKey(subject, coarse));
  return exact ?? ofCoarse ?? relations.get(relationKey(subject));
}
