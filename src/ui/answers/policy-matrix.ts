/** Connections that policies allow between the workloads of a namespace, and to and from others. */
export interface ReachMatrix {
  readonly namespace: string;
  /** Workloads of the namespace, then other parties that policies distinguish. */
  readonly names: readonly string[];
  /** Number of names that are workloads of the namespace: the first ones. */
  readonly own: number;
  readonly cells: readonly MatrixCell[];
  /** Names that are left out. */
  readonly more: number;
  /** Number of verdicts that the reference has confirmed, and of those that it contradicts. */
  readonly confirmed: number;
  readonly contradicted: number;
}

export interface MatrixCell {
  readonly from: string;
  readonly to: string;
  readonly rows: readonly MatrixRow[];
}

/** Ports with one outcome. */
export interface MatrixRow {
  readonly family?: 'ipv4' | 'ipv6';
  readonly ports: string;
  readonly verdict: 'allow' | 'deny';
  /** Rules that allow, or policies that deny; empty where no policy decides. */
  readonly by: readonly string[];
}
