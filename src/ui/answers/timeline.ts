import type { NodesGroup } from './cluster-now.ts';

/** Answer of `seinectl timeline KIND NAME --cluster`: the newest events, oldest first. */
export interface ClusterTimeline {
  /** `pod/NS/NAME`, `service/NS/NAME`, `node/NAME`, `policy/NS/NAME` or `policy/NAME`. */
  readonly subject: string;
  /** Beginning of the period (RFC 3339). */
  readonly from: string;
  /** End of the period (RFC 3339); null: now. */
  readonly until: string | null;
  /** Agents that may know of the subject. */
  readonly agents: number;
  readonly answered: number;
  /** Agents without an answer, by reason. */
  readonly silent: readonly NodesGroup[];
  /** Nodes that record nothing. */
  readonly off: NodesGroup | null;
  readonly events: readonly TimelineEntry[];
  /** Older events of the period that are left out. */
  readonly more: number;
  /** Reason why Events of the API server are missing; null if they are not. */
  readonly withoutApi: string | null;
}

export interface TimelineEntry {
  /** RFC 3339, UTC, by the clock of the node. */
  readonly time: string;
  readonly kind: string;
  /** `bad`: something failed; `warning`: something waits, or was changed by another program; `plain`: the rest. */
  readonly weight: 'bad' | 'warning' | 'plain';
  /** Nodes that recorded it, only the first; empty for an Event of the API server. */
  readonly nodes: readonly string[];
  readonly nodeCount: number;
  /** Further objects that the event is about, in the form of the subject. */
  readonly about: readonly string[];
  readonly text: string;
}
