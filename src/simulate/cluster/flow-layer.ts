import type { Wanted } from '../../dataplane/desired/host-entries.ts';
import { type FlowSource, type InstalledFlow, readOnce } from '../../dataplane/flow-walk/installed-flow.ts';
import type { PacketState } from '../../dataplane/flow-walk/packet-state.ts';
import { cookieOf, type Owner } from '../../dataplane/pipeline/cookie.ts';
import {
  type BridgeKey,
  type BridgeValue,
  decodeFlowEntry,
  encodeBridgeEntries,
  groupMessage,
  isGroupKey,
  numberOf,
  tableOfKey,
} from '../../dataplane/targets/bridge/bridge-entry.ts';
import type { Action } from '../../openflow/actions/action.ts';
import { decodeGroupMod } from '../../openflow/groups/group.ts';

/** Flows of a bridge whose owners are known. */
export interface NamedFlows extends FlowSource {
  ownerOf(cookie: bigint): Owner | undefined;
}

/** Decodes a flow, and keeps its condition. */
export function installedFlow(key: BridgeKey, value: BridgeValue): InstalledFlow {
  const flow = decodeFlowEntry(key, value);
  readOnce(flow);
  return flow;
}

/** Entries of a bridge in the bytes of OpenFlow, decoded when a packet first reaches their table. */
export class FlowLayer implements NamedFlows {
  readonly entries = new Map<BridgeKey, BridgeValue>();
  readonly #owners = new Map<bigint, Owner>();
  /** Keys by table, as they are added. */
  readonly #tables = new Map<number, BridgeKey[]>();
  readonly #decoded = new Map<number, readonly InstalledFlow[]>();
  readonly #groups = new Map<number, BridgeKey>();

  want(owner: Owner, wanted: Wanted): void {
    this.#owners.set(cookieOf(owner), owner);
    for (const [key, value] of encodeBridgeEntries(owner, wanted)) this.add(key, value);
  }

  add(key: BridgeKey, value: BridgeValue): void {
    const isKnown = this.entries.has(key);
    this.entries.set(key, value);
    const table = tableOfKey(key);
    if (table === undefined) {
      if (isGroupKey(key)) this.#groups.set(numberOf(key), key);
      return;
    }
    this.#decoded.delete(table);
    if (isKnown) return;
    const keys = this.#tables.get(table);
    if (keys) keys.push(key);
    else this.#tables.set(table, [key]);
  }

  ownerOf(cookie: bigint): Owner | undefined {
    return this.#owners.get(cookie);
  }

  name(owner: Owner): void {
    this.#owners.set(cookieOf(owner), owner);
  }

  visit(table: number, visitor: (flow: InstalledFlow) => void): Promise<void> {
    for (const flow of this.#flowsOf(table)) visitor(flow);
    return Promise.resolve();
  }

  #flowsOf(table: number): readonly InstalledFlow[] {
    const known = this.#decoded.get(table);
    if (known) return known;
    const flows = (this.#tables.get(table) ?? []).flatMap((key) => {
      const value = this.entries.get(key);
      return value === undefined ? [] : [installedFlow(key, value)];
    });
    this.#decoded.set(table, flows);
    return flows;
  }

  buckets(group: number): Promise<readonly (readonly Action[])[] | undefined> {
    const key = this.#groups.get(group);
    const value = key === undefined ? undefined : this.entries.get(key);
    return Promise.resolve(value === undefined ? undefined : decodeGroupMod(groupMessage(value)).buckets.map(({ actions }) => actions));
  }
}

/** Several layers as one bridge. */
export class FlowLayers implements NamedFlows {
  readonly #layers: readonly NamedFlows[];

  constructor(layers: readonly NamedFlows[]) {
    this.#layers = layers;
  }

  ownerOf(cookie: bigint): Owner | undefined {
    for (const layer of this.#layers) {
      const owner = layer.ownerOf(cookie);
      if (owner !== undefined) return owner;
    }
    return undefined;
  }

  async visit(table: number, visitor: (flow: InstalledFlow) => void, packet?: PacketState): Promise<void> {
    for (const layer of this.#layers) await layer.visit(table, visitor, packet);
  }

  async buckets(group: number): Promise<readonly (readonly Action[])[] | undefined> {
    for (const layer of this.#layers) {
      const found = await layer.buckets(group);
      if (found) return found;
    }
    return undefined;
  }
}
