import type { Entry, FlowEntry } from '../../../api/entry.ts';
import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { within } from '../../../base/async/time-limit.ts';
import { tableName } from '../../../dataplane/pipeline/tables.ts';
import type { BridgeKey, BridgeValue } from '../../../dataplane/targets/bridge/bridge-entry.ts';
import type { HostEntry, HostKey } from '../../../dataplane/targets/host/host-entry.ts';
import type { NodeState } from '../../../dataplane/targets/node-state.ts';
import type { SwitchDatabase } from '../../../dataplane/targets/switch/switch-database.ts';
import {
  type BridgeFilter,
  type BridgeReader,
  type BridgeSnapshot,
  type BridgeViewContext,
  bridgeDifferences,
  flowEntries,
  numberedEntries,
  readBridge,
} from './bridge-entries.ts';
import { firewallEntries, hostEntries, type InterfaceState, interfaceEntries, portEntries, settingEntries } from './node-entries.ts';
import { ownersByCookie } from './owners.ts';
import { type Parts, partsOf } from './targets.ts';

/** Maximum time to observe OVSDB (ms). */
const DATABASE_PATIENCE_MS = 2_000;

/** State of bridge and kernel at one moment. */
export interface NodeSnapshot {
  readonly bridge: ReadonlyMap<BridgeKey, BridgeValue>;
  readonly host: ReadonlyMap<HostKey, HostEntry>;
}

interface NodeReaderSources {
  readonly openflow: BridgeReader;
  readonly database: Pick<SwitchDatabase, 'tables'>;
  readonly nodeState: NodeState;
  /** A large bridge is read in turns with the rest of the agent. */
  readonly turns: LoopTurns;
}

/**
 * Reads bridge, OVSDB, kernel and nftables when it is called, and compares them with the desired state. Does not use the reconcilers' last
 * observation.
 *
 * Every read may throw SeineError `UNAVAILABLE`.
 */
export class NodeReader {
  readonly #sources: NodeReaderSources;

  constructor(sources: NodeReaderSources) {
    this.#sources = sources;
  }

  get parts(): Parts {
    return partsOf(this.#sources.nodeState);
  }

  async snapshot(signal: AbortSignal): Promise<NodeSnapshot> {
    const { held } = await this.#bridge({ counters: 'dropped' }, signal);
    return { bridge: held, host: await this.#sources.nodeState.targets.host.observe(signal) };
  }

  /** Reads the bridge with packet counters, and the kernel. */
  async countedSnapshot(signal: AbortSignal): Promise<{ readonly bridge: BridgeSnapshot; readonly host: NodeSnapshot['host'] }> {
    const bridge = await this.#bridge({ counters: 'kept' }, signal);
    return { bridge, host: await this.#sources.nodeState.targets.host.observe(signal) };
  }

  async flows(filter: BridgeFilter, signal: AbortSignal): Promise<AsyncIterable<FlowEntry>> {
    const snapshot = await this.#bridge({ ...filter, counters: 'kept' }, signal);
    return flowEntries(this.parts.bridge, snapshot, filter, await this.#context());
  }

  async numbered(kind: 'group' | 'meter', filter: BridgeFilter, signal: AbortSignal): Promise<AsyncIterable<Entry>> {
    const snapshot = await this.#bridge({ counters: 'dropped' }, signal);
    return numberedEntries(this.parts.bridge, snapshot, { kind, ...filter }, await this.#context());
  }

  async ports(signal: AbortSignal): Promise<Iterable<Entry>> {
    const patience = within(signal, DATABASE_PATIENCE_MS);
    const held = await this.#sources.nodeState.targets.switch.observe(patience);
    return portEntries(this.parts.switch, held, (name) => this.interfaceState(name));
  }

  /** Routes of the kernel, with the node's own addresses, neighbours and interface that Seine creates. */
  async routes(signal: AbortSignal): Promise<Iterable<Entry>> {
    return hostEntries(this.parts.host, await this.#sources.nodeState.targets.host.observe(signal));
  }

  /** Every entry that is not in sync, over all targets of the node. */
  async differences(signal: AbortSignal): Promise<AsyncIterable<Entry>> {
    const ports = await this.ports(signal);
    const bridge = await this.#bridge({ counters: 'dropped' }, signal);
    const routes = await this.routes(signal);
    const filter = firewallEntries(this.parts.firewall, await this.#sources.nodeState.targets.firewall.observe(signal));
    const settings = settingEntries(this.parts.settings, await this.#sources.nodeState.targets.settings.observe(signal));
    const interfaces = interfaceEntries(this.parts.links, await this.#sources.nodeState.targets.links.observe(signal));
    const [bridgePart, context] = [this.parts.bridge, await this.#context()];
    async function* entries(): AsyncGenerator<Entry> {
      yield* unlike(ports);
      yield* bridgeDifferences(bridgePart, bridge, context);
      yield* unlike(routes);
      yield* unlike(filter);
      yield* unlike(settings);
      yield* unlike(interfaces);
    }
    return entries();
  }

  /** Packets that flows of the table `classify` have counted, by the owners of these flows, `peer/NAME`. */
  async tunnelPackets(owners: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, bigint>> {
    const { counted } = await this.#bridge({ table: 'classify', counters: 'kept' }, signal);
    const { bridge } = this.#sources.nodeState;
    const sums = new Map<string, bigint>(owners.map((owner) => [owner, 0n]));
    for (const [key, { packets }] of counted)
      for (const owner of bridge.ownersOf(key)) if (sums.has(owner)) sums.set(owner, (sums.get(owner) ?? 0n) + packets);
    return sums;
  }

  /** State of an interface in ovs-vswitchd. */
  interfaceState(name: string): InterfaceState | undefined {
    const row = this.#sources.database.tables.Interface.find('name', name);
    return row && { ofPort: row.ofport, error: row.error };
  }

  /** Names of tables and ports, and the owner of each cookie, for texts about flows. */
  async flowWords(): Promise<BridgeViewContext['words']> {
    return (await this.#context()).words;
  }

  async ownersByCookie(): Promise<ReadonlyMap<bigint, string>> {
    return await ownersByCookie(this.#sources.nodeState.bridge.owners(), this.#sources.turns);
  }

  async #bridge(
    { table, counters }: { readonly table?: BridgeFilter['table']; readonly counters: 'kept' | 'dropped' },
    signal: AbortSignal,
  ): Promise<BridgeSnapshot> {
    const { openflow, nodeState } = this.#sources;
    const { bridge: desired, learned } = nodeState;
    return await readBridge({ reader: openflow, desired, learned, counters, ...(table && { table }) }, signal);
  }

  /** Names of tables and ports as `ovs-ofctl --names` prints them, and the owner of each cookie. */
  async #context(): Promise<BridgeViewContext> {
    const ports = new Map<number, string>();
    for (const { name, ofport } of this.#sources.database.tables.Interface.rows())
      if (ofport !== undefined && ofport >= 0) ports.set(ofport, quotedName(name));
    const byCookie = await this.ownersByCookie();
    const words = {
      names: { table: tableName, port: (port: number) => ports.get(port) },
      ownerOf: (cookie: bigint) => byCookie.get(cookie),
    };
    return { words, turns: this.#sources.turns };
  }
}

/** Returns the name of a port as `ovs-ofctl --names` prints it: in quotes unless it is a plain word. */
export function quotedName(name: string): string {
  return /^[A-Za-z_][A-Za-z0-9_]*$/.test(name) ? name : JSON.stringify(name);
}

function* unlike(entries: Iterable<Entry>): Generator<Entry> {
  for (const entry of entries) if (entry.state !== 'ok') yield entry;
}
