import type { MatrixSubject, PeerIdentity, PolicyDecision, PolicyDirection } from '../policy-matrix/matrix.ts';

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
