import type { NodesGroup } from './cluster-now.ts';

/** Last connections of one row of the view Traffic. */
export interface EdgeFlows {
  readonly source: string;
  readonly destination: string;
  /** The newest first. */
  readonly flows: readonly EdgeFlow[];
  /** Older connections of the period that are left out; some agents may have still more. */
  readonly more: number;
  readonly asked: number;
  readonly answered: number;
  /** Agents without an answer, by reason. */
  readonly silent: readonly NodesGroup[];
}

export interface EdgeFlow {
  /** RFC 3339. */
  readonly time: string;
  readonly event: string;
  readonly verdict: 'allowed' | 'denied' | 'would-deny' | 'refused';
  readonly protocol: string;
  /** Name and port of each end, `shop/web-0:40000`. */
  readonly source: string;
  readonly destination: string;
  readonly service?: string;
  /** Decisions of both ends, `egress: shop/web-egress spec.egress[0]`. */
  readonly decisions: readonly string[];
  /** Reason of a denial or refusal, in words. */
  readonly reason?: string;
  /** Further packets like it within a second. */
  readonly repeated: number;
  /** Bytes in both directions, and seconds, of a connection that has ended. */
  readonly bytes?: string;
  readonly seconds?: number;
  readonly nodes: readonly string[];
}
