import type { FlowSummary } from '../../api/flow-log.ts';
import type { NodesGroup } from './cluster-now.ts';

/** Connections of the cluster, joined from the sums of all agents. */
export interface ClusterTraffic {
  /** Period up to now (s). */
  readonly seconds: number;
  readonly agents: number;
  /** First of the agents that were asked, from 0, and their number. */
  readonly first: number;
  readonly asked: number;
  readonly answered: number;
  /** Agents without an answer, by reason. */
  readonly silent: readonly NodesGroup[];
  /** Nodes whose flow log is off. */
  readonly off: NodesGroup | null;
  /** Time from which the log of each node is complete, if that is later than the beginning of the period (RFC 3339). */
  readonly completeFrom: string | null;
  /** Time in which the connections were counted, for rates (s): whole minutes, and less than the period if the logs began later. */
  readonly countedSeconds: number;
  /** Connections without a record, by cause in words. */
  readonly losses: readonly { readonly text: string; readonly count: number }[];
  /** Recorded connections that are in no sum, because there were too many different ones. */
  readonly unnamed: number;
  readonly matrix: TrafficMatrix;
  /** Connections of the namespace that was asked for. */
  readonly namespace: NamespaceTraffic | null;
}

interface TrafficMatrix {
  /** Namespaces, and `(outside)`, `(nodes)`, `(unknown)`, with most connections first; `(41 others)` is the rest. */
  readonly parties: readonly string[];
  readonly cells: readonly TrafficCell[];
}

export interface TrafficCell {
  readonly from: string;
  readonly to: string;
  readonly connections: number;
  /** Those of them that were denied or refused. */
  readonly denied: number;
}

interface NamespaceTraffic {
  readonly name: string;
  /** Workloads of the namespace and those of others that it has connections with, and `(41 others)`. */
  readonly parties: readonly string[];
  readonly edges: readonly TrafficEdge[];
  /** Edges that are left out, and their connections. */
  readonly moreEdges: number;
  readonly moreConnections: number;
}

/** Connections with equal ends, Service, port, verdict and rule. */
export type TrafficEdge = Omit<FlowSummary, 'reporter'>;
