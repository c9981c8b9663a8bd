import { SeineError } from '../base/errors/seine-error.ts';
import type { Json } from './json.ts';
import { isObject } from './json-rpc.ts';
import type { Replica, UpdateFormat } from './replica.ts';
import { uuidColumn } from './schema/table.ts';
import type { JsonRpcSession } from './session.ts';

/** Transaction id of an empty history, and the answer of a server that keeps no history. */
const noTransaction = '00000000-0000-0000-0000-000000000000';

/** `where` of a `<monitor-cond-request>`: conditions, of which a row must meet one, or a value that stands for all rows or none. */
export type EncodedFilter = readonly Json[];
export const everyRow: EncodedFilter = [true];
export const noRow: EncodedFilter = [false];

interface FilterChange {
  readonly table: string;
  readonly filter: EncodedFilter;
}

/** Columns of the server, by table. */
type ServerColumns = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Keeps a replica up to date over consecutive sessions.
 *
 * Prefers the method with which a server that keeps a history sends only the missed changes, and falls back to those of older servers.
 * Source: ovsdb-server(7) "Monitor_cond_since", "Monitor_cond"; RFC 7047 section 4.1.5.
 */
export class Monitor {
  readonly #replica: Replica;
  readonly #database: string;
  readonly #id: string;
  /** Rows to replicate, by table; all, for a table without an entry. */
  readonly #filters = new Map<string, EncodedFilter>();
  #columns: ServerColumns = new Map();
  #lastTransaction = noTransaction;
  #lastRequests: string | undefined;
  #active = false;

  /** @param names the database, and the monitor: unique on its session */
  constructor(replica: Replica, { database, id }: { readonly database: string; readonly id: string }) {
    this.#replica = replica;
    this.#database = database;
    this.#id = id;
  }

  /**
   * Starts to monitor, and syncs the replica with the server.
   *
   * @throws SeineError like `JsonRpcSession.call`; `PROTOCOL` if the first copy is inconsistent.
   */
  async start(session: JsonRpcSession, columns: ServerColumns, signal: AbortSignal): Promise<void> {
    this.#active = false;
    this.#columns = columns;
    const requests = this.#requests();
    // A server with other columns than the last one cannot send the missed changes of those.
    if (JSON.stringify(requests) !== this.#lastRequests) this.#lastTransaction = noTransaction;
    this.#lastRequests = JSON.stringify(requests);
    for (const begin of [this.#since, this.#conditional, this.#plain]) {
      try {
        await begin.call(this, session, requests, signal);
        return;
      } catch (thrown) {
        if (!isUnknownMethod(thrown) || begin === this.#plain) throw thrown;
      }
    }
  }

  /** Sets the rows to replicate from the next `start` on. */
  setFilter(table: string, filter: EncodedFilter): void {
    this.#filters.set(table, filter);
  }

  /**
   * Changes the rows to replicate. Resolves when the replica has exactly these.
   *
   * @throws SeineError like `JsonRpcSession.call`. If the server refused, nothing has changed.
   */
  async changeFilter(session: JsonRpcSession, { table, filter }: FilterChange, signal: AbortSignal): Promise<void> {
    const before = this.#filters.get(table) ?? everyRow;
    this.#filters.set(table, filter);
    const requests = JSON.stringify(this.#requests());
    const params = [this.#id, this.#id, { [table]: [{ where: filter }] }];
    try {
      // Only a change that the server has confirmed can be the base after the next connection.
      await session.call({ method: 'monitor_cond_change', params }, () => (this.#lastRequests = requests), signal);
    } catch (thrown) {
      const refused = thrown instanceof SeineError && thrown.code === 'REFUSED';
      if (refused && this.#filters.get(table) === filter) this.#filters.set(table, before);
      throw thrown;
    }
  }

  /** Called when the session ended: the next call must be `start`. */
  stop(): void {
    this.#active = false;
  }

  /**
   * Handles a notification if it is for this monitor. After `cancelled` the server sends no more updates: call `start` again.
   *
   * @throws SeineError `PROTOCOL` if it is inconsistent with the replica; the connection, and then the replica, must be recreated.
   */
  notified(method: string, params: readonly unknown[]): 'taken' | 'cancelled' | 'not mine' {
    if (params[0] !== this.#id) return 'not mine';
    switch (method) {
      case 'update':
      case 'update2':
        this.#update(params[1], method);
        return 'taken';
      case 'update3':
        this.#update(params[2], 'update2');
        this.#lastTransaction = transactionId(params[1]);
        return 'taken';
      case 'monitor_canceled':
        this.#active = false;
        return 'cancelled';
      default:
        return 'not mine';
    }
  }

  #update(updates: unknown, format: UpdateFormat): void {
    if (!this.#active) throw new SeineError('PROTOCOL', 'OVSDB: update for a monitor that we do not have');
    this.#trusting(() => this.#replica.apply(updates, format));
  }

  async #since(session: JsonRpcSession, requests: Json, signal: AbortSignal): Promise<void> {
    const params = [this.#database, this.#id, requests, this.#lastTransaction];
    const read = (result: unknown): void => {
      if (!Array.isArray(result)) throw new SeineError('PROTOCOL', 'OVSDB: reply to monitor_cond_since is not an array');
      const [found, transaction, updates] = result;
      this.#trusting(() => (found === true ? this.#replica.apply(updates, 'update2') : this.#replica.replace(updates, 'update2')));
      this.#lastTransaction = transactionId(transaction);
      this.#active = true;
    };
    await session.call({ method: 'monitor_cond_since', params }, read, signal);
  }

  #conditional(session: JsonRpcSession, requests: Json, signal: AbortSignal): Promise<void> {
    return this.#whole(session, { method: 'monitor_cond', requests, format: 'update2' }, signal);
  }

  async #plain(session: JsonRpcSession, requests: Json, signal: AbortSignal): Promise<void> {
    for (const filter of this.#filters.values()) {
      // Unrequested rows would appear to meet the conditions.
      if (filter !== everyRow) throw new SeineError('REFUSED', 'ovsdb monitor: the server cannot leave out rows');
    }
    return this.#whole(session, { method: 'monitor', requests, format: 'update' }, signal);
  }

  #whole(
    session: JsonRpcSession,
    { method, requests, format }: { readonly method: string; readonly requests: Json; readonly format: UpdateFormat },
    signal: AbortSignal,
  ): Promise<void> {
    const read = (result: unknown): void => {
      this.#trusting(() => this.#replica.replace(result, format));
      this.#lastTransaction = noTransaction;
      this.#active = true;
    };
    return session.call({ method, params: [this.#database, this.#id, requests] }, read, signal);
  }

  /** After an inconsistent update, the next server must send everything. */
  #trusting(update: () => void): void {
    try {
      update();
    } catch (thrown) {
      this.#lastTransaction = noTransaction;
      throw thrown;
    }
  }

  #requests(): Json {
    const requests: [string, Json][] = [];
    for (const table of this.#replica.tables.values()) {
      const known = this.#columns.get(table.name);
      if (known === undefined) continue;
      const columns = table.columns.map(([name]) => name).filter((name) => known.has(name));
      const where = this.#filters.get(table.name) ?? everyRow;
      requests.push([table.name, [where === everyRow ? { columns } : { columns, where }]]);
    }
    return Object.fromEntries(requests);
  }
}

/** Reads the columns of each table from a `<database-schema>`. */
export function readServerColumns(schema: unknown): ServerColumns {
  if (!isObject(schema) || !isObject(schema['tables'])) throw new SeineError('PROTOCOL', 'OVSDB: schema without tables');
  const tables = Object.entries(schema['tables']).map(([name, table]): [string, ReadonlySet<string>] => {
    if (!isObject(table) || !isObject(table['columns'])) throw new SeineError('PROTOCOL', 'OVSDB: schema of a table without columns');
    return [name, new Set(Object.keys(table['columns']))];
  });
  return new Map(tables);
}

function transactionId(json: unknown): string {
  return uuidColumn.decode(['uuid', json]);
}

function isUnknownMethod(thrown: unknown): boolean {
  return thrown instanceof SeineError && thrown.code === 'REFUSED' && thrown.context['error'] === 'unknown method';
}
