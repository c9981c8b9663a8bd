import type { DropCounter } from '../../api/trace.ts';

/** State of the cluster's agents. */
export interface ClusterNow {
  /** Name of the context, or of the cluster. */
  readonly cluster: string;
  readonly agents: number;
  readonly answered: number;
  readonly ready: number;
  /** Agents without an answer, by reason. */
  readonly silent: readonly NodesGroup[];
  /** Nodes without an agent's pod; null if the user may not list nodes. */
  readonly withoutAgent: readonly string[] | null;
  readonly notReady: readonly NodesGroup[];
  readonly problems: readonly ProblemGroup[];
  /** Agents whose checks are overdue, by check. */
  readonly overdue: readonly NodesGroup[];
  readonly groups: readonly VersionGroup[];
  readonly drops: readonly ReasonDrops[];
  /** Age of the oldest periodic check (s). */
  readonly oldestCheckSeconds: number | null;
}

/** Nodes with the same text. Only the first names are listed. */
export interface NodesGroup {
  readonly text: string;
  readonly count: number;
  readonly nodes: readonly string[];
}

export interface ProblemGroup extends NodesGroup {
  /** Messages of problems of this kind, the most frequent first. */
  readonly messages: readonly string[];
  readonly remedy?: string;
}

/** Nodes with the same pool, versions and modes. */
export interface VersionGroup {
  readonly pool: string;
  readonly seine: string;
  readonly ovs: string;
  readonly dataPath: string;
  readonly policies: string;
  readonly count: number;
}

/** Dropped packets of all nodes for one reason. */
export interface ReasonDrops extends Omit<DropCounter, 'packets' | 'table'> {
  /** Sum over the nodes that answered; may exceed 2^53. */
  readonly packets: string;
  /** Packets since the last refresh; null at the first. */
  readonly recent: string | null;
  /** Nodes with packets, the most first. */
  readonly nodes: readonly string[];
}
