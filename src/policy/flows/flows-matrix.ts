import type { MatrixSubject, PeerIdentity, PolicyDecision, PolicyDirection } from '../matrix/matrix.ts';

/** Part of a policy matrix that flows are made of: rows that are looked up by key. */
export interface FlowsMatrix extends Readonly<Record<PolicyDirection, DirectionRows>> {
  readonly subjects: RowsByKey<MatrixSubject>;
}

export interface DirectionRows {
  readonly identities: RowsByKey<PeerIdentity>;
  readonly relations: RowsByKey<PolicyDecision>;
}

export interface RowsByKey<V> {
  get(key: string): V | undefined;
}

/** Keys of one direction to process. */
export interface DirectionKeys {
  readonly identities: ReadonlySet<string>;
  readonly relations: ReadonlySet<string>;
}

/** Matrix before a round. */
export interface MatrixBefore extends Readonly<Record<PolicyDirection, RowsBefore>> {
  readonly subjects: RowsByKey<MatrixSubject>;
}

export interface RowsBefore {
  readonly identities: RowsByKey<PeerIdentity>;
  readonly relations: RowsByKey<PolicyDecision> & Iterable<readonly [string, PolicyDecision]>;
}

/** Matrix after a round. */
export interface MatrixAfter extends Readonly<Record<PolicyDirection, RowsBefore>> {
  readonly subjects: RowsByKey<MatrixSubject> & { values(): Iterable<MatrixSubject> };
}

export function unionOf(a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> {
  return b.size === 0 ? a : new Set([...a, ...b]);
}
