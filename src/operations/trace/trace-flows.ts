import type { FlowSource, InstalledFlow } from '../../dataplane/flow-walk/installed-flow.ts';
import { readOnce } from '../../dataplane/flow-walk/installed-flow.ts';
import { isLearned } from '../../dataplane/pipeline/cookie.ts';
import { tables } from '../../dataplane/pipeline/tables.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  groupMessage,
  isGroupKey,
  numberOf,
  tableOfKey,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { Action } from '../../openflow/actions/action.ts';
import type { OpenFlowConnection } from '../../openflow/connection/connection.ts';
import { decodeGroupMod } from '../../openflow/groups/group.ts';

type Buckets = ReadonlyMap<number, readonly (readonly Action[])[]>;

/** Largest table that is kept in memory for one trace. A larger one is read from OVS at each visit. */
const KEPT_FLOWS_MAX = 4_096;

/** Flows and groups that are installed in OVS: each table is read when the packet reaches it. */
export class FlowsInSwitch implements FlowSource {
  readonly #openflow: Pick<OpenFlowConnection, 'dumpFlows' | 'dumpGroups'>;
  readonly #signal: AbortSignal;
  readonly #kept = new Map<number, readonly InstalledFlow[]>();
  #groups: Buckets | undefined;

  constructor(openflow: Pick<OpenFlowConnection, 'dumpFlows' | 'dumpGroups'>, signal: AbortSignal) {
    this.#openflow = openflow;
    this.#signal = signal;
  }

  async visit(table: number, visitor: (flow: InstalledFlow) => void): Promise<void> {
    const kept = this.#kept.get(table);
    if (kept) {
      for (const flow of kept) visitor(flow);
      return;
    }
    const copies: InstalledFlow[] = [];
    const take = (flow: InstalledFlow): void => {
      if (copies.length > KEPT_FLOWS_MAX) {
        visitor(flow);
        return;
      }
      const { priority, cookie, match, instructions, packets } = flow;
      const copy = {
        table,
        priority,
        cookie,
        match: match.slice(),
        instructions: instructions.slice(),
        ...(packets !== undefined && { packets }),
      };
      copies.push(copy);
      readOnce(copy);
      visitor(copy);
    };
    await this.#openflow.dumpFlows({ table }, take, this.#signal);
    if (copies.length <= KEPT_FLOWS_MAX) this.#kept.set(table, copies);
  }

  async buckets(group: number): Promise<readonly (readonly Action[])[] | undefined> {
    this.#groups ??= new Map(
      (await this.#openflow.dumpGroups(this.#signal)).map(({ id, buckets }) => [id, buckets.map(({ actions }) => actions)]),
    );
    return this.#groups.get(group);
  }
}

/** Tables with flows that OVS learns from flows that the agent wants. */
const learningTables: ReadonlySet<number> = new Set([tables.affinity.id, tables.associations.id]);

/** Flows that the agent wants, with those that OVS has learned: both decide. */
export function withLearned(desired: FlowSource, installed: FlowSource): FlowSource {
  return {
    visit: async (table, visitor) => {
      await desired.visit(table, visitor);
      if (!learningTables.has(table)) return;
      await installed.visit(table, (flow) => {
        if (isLearned(flow.cookie)) visitor(flow);
      });
    },
    buckets: (group) => desired.buckets(group),
  };
}

interface WantedEntries {
  keys(): Iterable<BridgeKey>;
  wanted(key: BridgeKey): BridgeValue | undefined;
}

/** Flows and groups that the agent wants. */
export class DesiredFlows implements FlowSource {
  readonly #desired: WantedEntries;
  readonly #tables = new Map<number, BridgeKey[]>();
  readonly #groups = new Map<number, BridgeKey>();

  constructor(desired: WantedEntries) {
    this.#desired = desired;
    for (const key of desired.keys()) {
      const table = tableOfKey(key);
      if (table !== undefined) {
        const keys = this.#tables.get(table);
        if (keys) keys.push(key);
        else this.#tables.set(table, [key]);
      } else if (isGroupKey(key)) this.#groups.set(numberOf(key), key);
    }
  }

  visit(table: number, visitor: (flow: InstalledFlow) => void): Promise<void> {
    for (const key of this.#tables.get(table) ?? []) {
      const value = this.#desired.wanted(key);
      if (value !== undefined) visitor(decodeFlowEntry(key, value));
    }
    return Promise.resolve();
  }

  buckets(group: number): Promise<readonly (readonly Action[])[] | undefined> {
    const key = this.#groups.get(group);
    const value = key === undefined ? undefined : this.#desired.wanted(key);
    return Promise.resolve(value === undefined ? undefined : decodeGroupMod(groupMessage(value)).buckets.map(({ actions }) => actions));
  }
}
