import { within } from '../../../base/async/time-limit.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { NewRow, Uuid } from '../../../ovsdb/schema/atoms.ts';
import type { openVswitch } from '../../../ovsdb/schema/open-vswitch.ts';
import type { Committed, Transaction } from '../../../ovsdb/transaction.ts';
import type { WantedBridge, WantedPort } from '../../desired/switch-row.ts';
import type { Plan, Target } from '../../reconcile/target.ts';
import {
  type BridgeRow,
  bridgeDefaults,
  foreignOfBridge,
  foreignOfPort,
  interfaceDefaults,
  otherConfig,
  ownerMark,
  type PortRow,
} from './foreign-columns.ts';
import type { SwitchDatabase } from './switch-database.ts';
import type { SwitchEntry, SwitchKey } from './switch-entry.ts';
import { portKey } from './switch-entry.ts';

/** Maximum time for the local copy to show a committed change (ms). It may never do so: another client may have changed the row at once. */
const SEEN_WITHIN_MS = 1_000;

type SwitchTransaction = Transaction<typeof openVswitch>;

/**
 * Target for the bridge and its ports as rows of OVSDB (ovs-vswitchd.conf.db(5)).
 *
 * Observing costs nothing: the client has a copy. A whole plan is one transaction.
 */
export class SwitchTarget implements Target<SwitchKey, SwitchEntry> {
  readonly #database: SwitchDatabase;
  readonly #bridgeName: string;
  readonly #lock: string;

  /** @param lock name of the OVSDB lock required for writes */
  constructor(database: SwitchDatabase, bridgeName: string, lock: string) {
    this.#database = database;
    this.#bridgeName = bridgeName;
    this.#lock = lock;
  }

  async observe(signal: AbortSignal): Promise<Map<SwitchKey, SwitchEntry>> {
    await this.#database.synced(signal);
    const entries = new Map<SwitchKey, SwitchEntry>();
    const bridge = this.#bridge();
    if (!bridge) return entries;
    entries.set('bridge', this.#observedBridge(bridge));
    for (const row of this.#database.tables.Port.rows()) {
      const entry = this.#observedPort(row);
      if (entry) entries.set(portKey(row.name), entry);
    }
    return entries;
  }

  /** Returns once the copy of OVSDB shows the change, so that no decision uses the state before it. */
  async apply(plan: Plan<SwitchKey, SwitchEntry>, signal: AbortSignal): Promise<void> {
    const inserted: NewRow[] = [];
    const removed: Uuid[] = [];
    const committed = await this.#transact((tx) => {
      tx.assertLock(this.#lock);
      for (const key of plan.remove) removed.push(...this.#remove(tx, key));
      const puts = [...plan.put.values()].toSorted((a, b) => (a.kind < b.kind ? -1 : 1));
      for (const entry of puts) {
        if (entry.kind === 'bridge') this.#putBridge(tx, entry.bridge);
        else inserted.push(...this.#putPort(tx, entry.port));
      }
    }, signal);
    await this.#untilSeen({ inserted: inserted.map((row) => committed.uuid(row)), removed }, signal);
  }

  /** Commits a transaction. Without the lock every change would be refused: that is not the owner's fault, and passes. */
  async #transact(describe: (tx: SwitchTransaction) => void, signal: AbortSignal): Promise<Committed> {
    try {
      return await this.#database.transact(describe, signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'write to OVSDB');
      // A change that violates the schema is not sent; to the owner that is a refusal like any other.
      if (error.code === 'INVALID_INPUT') throw new SeineError('REFUSED', error.message, { cause: error });
      if (error.context['error'] !== 'not owner') throw error;
      throw new SeineError('UNAVAILABLE', `another agent holds the lock ${this.#lock}`, { cause: error });
    }
  }

  async #untilSeen(
    { inserted, removed }: { readonly inserted: readonly Uuid[]; readonly removed: readonly Uuid[] },
    signal: AbortSignal,
  ): Promise<void> {
    const { Port } = this.#database.tables;
    const patience = within(signal, SEEN_WITHIN_MS);
    try {
      await Promise.all([
        ...inserted.map((uuid) => Port.when(uuid, (port) => port && true, patience)),
        ...removed.map((uuid) => Port.when(uuid, (port) => (port === undefined ? true : undefined), patience)),
      ]);
    } catch (cause) {
      throw new SeineError('UNAVAILABLE', 'the copy of OVSDB does not have the written values', { cause });
    }
  }

  #bridge(): BridgeRow | undefined {
    return this.#database.tables.Bridge.find('name', this.#bridgeName);
  }

  #observedBridge(row: BridgeRow): SwitchEntry {
    const { Flow_Table } = this.#database.tables;
    const tables = Array.from(row.flow_tables, ([id, uuid]) => [id, Flow_Table.get(uuid)] as const);
    const lacks = this.#hasDatapath(row.datapath_type) ? [] : [`no row of data path ${row.datapath_type}`];
    const set = foreignOfBridge(
      row,
      Array.from(tables, ([, table]) => table),
    );
    const foreign = [...set, ...lacks].join(' ');
    const bridge: WantedBridge = {
      name: row.name,
      datapathType: row.datapath_type === 'netdev' ? 'netdev' : 'system',
      tableNames: new Map(tables.map(([id, table]) => [id, table?.name ?? ''])),
    };
    return { kind: 'bridge', bridge, ...(foreign === '' ? {} : { foreign }) };
  }

  /** Returns the entry of a port of Seine's, which is always on Seine's bridge: OVSDB garbage-collects rows without a reference. */
  #observedPort(row: PortRow): SwitchEntry | undefined {
    if (row.external_ids.get(ownerMark.key) !== ownerMark.value) return undefined;
    const [interfaceUuid] = row.interfaces;
    const link = interfaceUuid === undefined ? undefined : this.#database.tables.Interface.get(interfaceUuid);
    const { [ownerMark.key]: _, ...externalIds } = Object.fromEntries(row.external_ids);
    const port: WantedPort = {
      name: row.name,
      type: link?.type ?? '',
      ofPort: link?.ofport_request ?? 0,
      options: Object.fromEntries(link?.options ?? []),
      externalIds,
      ...(link?.mac === undefined ? {} : { mac: link.mac }),
      ...(link?.mtu_request === undefined ? {} : { mtu: link.mtu_request }),
    };
    const foreign = foreignOfPort(row, link).join(' ');
    return { kind: 'port', port, ...(foreign === '' ? {} : { foreign }) };
  }

  #putBridge(tx: SwitchTransaction, bridge: WantedBridge): void {
    const tables = Array.from(bridge.tableNames, ([id, name]) => [id, tx.insert('Flow_Table', { name })] as const);
    const values = { ...bridgeDefaults, datapath_type: bridge.datapathType, flow_tables: tables } as const;
    const external = [[ownerMark.key, ownerMark.value]] as const;
    const existing = this.#bridge();
    this.#putDatapath(tx, bridge.datapathType);
    if (existing) {
      const config = new Map([...existing.other_config, ...otherConfig]);
      tx.update('Bridge', existing._uuid, {
        ...values,
        external_ids: new Map([...existing.external_ids, ...external]),
        other_config: config,
      });
      return;
    }
    // Every bridge has a port of its own name; without it ovs-vswitchd ignores the bridge.
    const local = tx.insert('Interface', { name: bridge.name, type: 'internal' });
    const port = tx.insert('Port', { name: bridge.name, interfaces: [local] });
    const row = tx.insert('Bridge', { name: bridge.name, ports: [port], ...values, external_ids: external, other_config: otherConfig });
    tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [row]]);
  }

  #hasDatapath(type: string): boolean {
    const [open] = this.#database.tables.Open_vSwitch.rows();
    return open?.datapaths.has(type) ?? false;
  }

  /** Creates the data path's row: ovs-vswitchd reports capabilities in it, but does not create it. */
  #putDatapath(tx: SwitchTransaction, type: WantedBridge['datapathType']): void {
    if (this.#hasDatapath(type)) return;
    const row = tx.insert('Datapath', { external_ids: [[ownerMark.key, ownerMark.value]] });
    tx.mutate('Open_vSwitch', [], ['datapaths', 'insert', [[type, row]]]);
  }

  /** @returns the new row, if there was none */
  #putPort(tx: SwitchTransaction, port: WantedPort): NewRow[] {
    const external = [...Object.entries(port.externalIds), [ownerMark.key, ownerMark.value] as const];
    const link = {
      type: port.type,
      ofport_request: port.ofPort,
      options: Object.entries(port.options),
      mac: port.mac,
      mtu_request: port.mtu,
    };
    const existing = this.#database.tables.Port.find('name', port.name);
    const [interfaceUuid] = existing?.interfaces ?? [];
    if (existing && interfaceUuid !== undefined) {
      tx.update('Port', existing._uuid, { external_ids: external, qos: undefined });
      // ovs-vswitchd tries again, so the earlier error does not apply any more.
      tx.update('Interface', interfaceUuid, { ...link, ...interfaceDefaults, error: undefined });
      tx.mutate('Bridge', [['name', '==', this.#bridgeName]], ['ports', 'insert', [existing._uuid]]);
      return [];
    }
    const row = tx.insert('Interface', { name: port.name, ...link });
    const newPort = tx.insert('Port', { name: port.name, interfaces: [row], external_ids: external });
    tx.mutate('Bridge', [['name', '==', this.#bridgeName]], ['ports', 'insert', [newPort]]);
    return [newPort];
  }

  /**
   * Removes ports. OVSDB deletes their rows when no row refers to them any more.
   *
   * @returns ports that will be removed
   */
  #remove(tx: SwitchTransaction, key: SwitchKey): Uuid[] {
    if (key === 'bridge') {
      const bridge = this.#bridge();
      if (bridge) tx.mutate('Open_vSwitch', [], ['bridges', 'delete', [bridge._uuid]]);
      return [];
    }
    const port = this.#database.tables.Port.find('name', key.slice('port/'.length));
    if (port) tx.mutate('Bridge', [['name', '==', this.#bridgeName]], ['ports', 'delete', [port._uuid]]);
    return port ? [port._uuid] : [];
  }
}
