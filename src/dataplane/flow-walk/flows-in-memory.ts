import type { Action } from '../../openflow/actions/action.ts';
import { type FlowSource, type InstalledFlow, readOnce } from './installed-flow.ts';

/** Flows and groups that are in memory; each match is read once. */
export class FlowsInMemory implements FlowSource {
  readonly #tables: ReadonlyMap<number, readonly InstalledFlow[]>;
  readonly #groups: ReadonlyMap<number, readonly (readonly Action[])[]>;

  constructor(flows: readonly InstalledFlow[], groups: ReadonlyMap<number, readonly (readonly Action[])[]>) {
    for (const flow of flows) readOnce(flow);
    // The highest priority first: the others are skipped after a match.
    this.#tables = Map.groupBy(
      flows.toSorted((a, b) => b.priority - a.priority),
      ({ table }) => table,
    );
    this.#groups = groups;
  }

  visit(table: number, visitor: (flow: InstalledFlow) => void): Promise<void> {
    for (const flow of this.#tables.get(table) ?? []) visitor(flow);
    return Promise.resolve();
  }

  buckets(group: number): Promise<readonly (readonly Action[])[] | undefined> {
    return Promise.resolve(this.#groups.get(group));
  }
}
