import type { FlowLosses, FlowSummary } from '../../../api/flow-log.ts';
import type { FlowRecord } from '../records/flow-record.ts';

/** One thing that leaves the node: a record, or what a minute adds up to. Times are Unix times in ms. */
export type ExportedItem =
  | { readonly kind: 'flow'; readonly flow: FlowRecord }
  | { readonly kind: 'summary'; readonly minuteMs: number; readonly summary: FlowSummary }
  /** Connections of a minute that got no record, and those that are in no summary. */
  | { readonly kind: 'losses'; readonly minuteMs: number; readonly losses: FlowLosses; readonly others: number };

export const exportOutcomes = ['sent', 'full', 'refused', 'unsent'] as const;
/**
 * End of an item. `sent`: the receiver took it, or over UDP it left. `full`: too many waited. `refused`: the receiver rejects it.
 * `unsent`: the log was turned off or the agent ended before.
 */
export type ExportOutcome = (typeof exportOutcomes)[number];

export type ExportCounts = Readonly<Record<ExportOutcome, number>>;

/** Receiver of items, with its connection. */
export interface FlowReceiver {
  /**
   * Sends items. Resolves with the number of them that the receiver rejected.
   *
   * @throws SeineError `UNAVAILABLE` if they may be sent again later; any other error rejects them all
   */
  send(items: readonly ExportedItem[], signal: AbortSignal): Promise<{ readonly refused: number }>;
  /** Called now and then with the counts, for receivers that report them. */
  report?(counts: ExportCounts): void;
  close(): void;
}
