import type { NodesGroup } from './cluster-now.ts';

/** Use of the connections of one cell of the policy matrix. */
export interface CellUse {
  readonly from: string;
  readonly to: string;
  /** Period up to now (s). */
  readonly seconds: number;
  readonly rows: readonly RowUse[];
  /** Number of nodes that answered with a flow log. */
  readonly logged: number;
  /** Time from which the flow logs are complete (RFC 3339); null if none is on. */
  readonly completeFrom: string | null;
  /** Connections of these nodes that have no record. */
  readonly lost: number;
  /** Nodes of these pods whose agents do not answer, by reason, or whose flow log is off. */
  readonly unknown: readonly NodesGroup[];
  /** Nodes that were not asked, because there are too many. */
  readonly notAsked: number;
}

/** Use of one row of a cell, in the order of the matrix. */
export interface RowUse {
  readonly ports: string;
  readonly verdict: 'allow' | 'deny';
  readonly family?: 'ipv4' | 'ipv6';
  /** Connections, or denied attempts, that the flow log has; null if it is off everywhere. */
  readonly recorded: number | null;
  readonly last: { readonly time: string; readonly from: string; readonly to: string } | null;
}
