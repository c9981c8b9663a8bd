import type { MatrixSubject, PeerIdentity, PolicyDecision, PolicyDirection } from '../matrix/matrix.ts';

/** Rows of a matrix, as far as flows are made of them: those that are asked for. */
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

/** Keys of one direction that are to be looked at. */
export interface DirectionKeys {
  readonly identities: ReadonlySet<string>;
  readonly relations: ReadonlySet<string>;
}

/** What holds before a round. */
export interface MatrixBefore extends Readonly<Record<PolicyDirection, RowsBefore>> {
  readonly subjects: RowsByKey<MatrixSubject>;
}

export interface RowsBefore {
  readonly identities: RowsByKey<PeerIdentity>;
  readonly relations: RowsByKey<PolicyDecision> & Iterable<readonly [string, PolicyDecision]>;
}

/** What is going to be. */
export interface MatrixAfter extends Readonly<Record<PolicyDirection, RowsBefore>> {
  readonly subjects: RowsByKey<MatrixSubject> & { values(): Iterable<MatrixSubject> };
}
