import { type Steps, tinyWork } from '../../base/async/steps.ts';
import { cidrOf, parseCidr } from '../../base/net/ip.ts';
import { type PeerIdentity, type PolicyDecision, type PolicyDirection, relationKey, type SubjectClass } from '../matrix/matrix.ts';
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

export function movedClasses({ direction, before, after, pods }: RoundChange): MovedClasses {
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
  return nobody;
}

export const nobody: PeerIdentity = { coarse: noPeer, fine: noPeer };

export function has({ relations }: DirectionRows, subject: SubjectClass): boolean {
  return relations.get(relationKey(subject)) !== undefined;
}

export function decisionAt({ relations }: DirectionRows, subject: SubjectClass, identity: PeerIdentity): PolicyDecision | undefined {
  const { coarse, fine } = identity;
  const exact = relations.get(relationKey(subject, coarse, fine)); // an earlier transition may have one for an identity with a coarse part only
  const ofCoarse = coarse.id === noPeer.id ? undefined : relations.get(relationKey(subject, coarse));
  return exact ?? ofCoarse ?? relations.get(relationKey(subject));
}
