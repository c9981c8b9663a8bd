import type { Action } from '../actions/action.ts';

/** Source: OpenFlow 1.5.1 `ofp_group_type`. */
export const groupTypes = ['all', 'select', 'indirect', 'fastFailover'] as const;
export type GroupType = (typeof groupTypes)[number];

export interface Bucket {
  /** Number, unique in its group. */
  readonly id: number;
  /** Share of a `select` group; absent in other groups. */
  readonly weight?: number;
  readonly watchPort?: number;
  readonly watchGroup?: number;
  readonly actions: readonly Action[];
}
