import { SeineError } from '../base/errors/seine-error.ts';
import type { Json } from './json.ts';
import { isObject } from './json-rpc.ts';
import type { Replica, UpdateFormat } from './replica.ts';
import { uuidColumn } from './schema/table.ts';
import type { JsonRpcSession } from './session.ts';

/** "I know nothing yet", and what a server that keeps no history answers. */
const noTransaction = '00000000-0000-0000-0000-000000000000';

/** `where` of a `<monitor-cond-request>`: conditions, of which a row must meet one, or what stands for all rows or none. */
export type EncodedFilter = readonly Json[];
export const everyRow: EncodedFilter = [true];
export const noRow: EncodedFilter = [false];

interface FilterChange {
  readonly table: string;
  readonly filter: EncodedFilter;
}

/** The columns that the server has, by table. */
type ServerColumns = ReadonlyMap<string, ReadonlySet<string>>;

/**
 * Keeps a replica up to date over one session after another.
 *
 * Prefers the method with which a server that keeps a history sends only what we missed, and falls back to those that older
 * servers know. Source: ovsdb-server(7) "Monitor_cond_since", "Monitor_cond"; RFC 7047 section 4.1.5.
 */
export class Monitor {
  readonly #replica: Replica;
  readonly #database: string;
  readonly #id: string;
  /** Which rows to hold, by table; of a table that is not among them, all. */
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
   * Begins to monitor, and brings the replica to the state of the server.
   *
   * @throws SeineError as `JsonRpcSession.call`; `PROTOCOL` if the first copy makes no sense.
   */
  async start(session: JsonRpcSession, columns: ServerColumns, signal: AbortSignal): Promise<void> {
    this.#active = false;
    this.#columns = columns;
    const requests = this.#requests();
    // A server with other columns than the last one cannot tell us what we missed of those.
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

  /** Which rows to hold from the next `start` on. */
  setFilter(table: string, filter: EncodedFilter): void {
    this.#filters.set(table, filter);
  }

  /**
   * Which rows to hold from now on. Resolves when the replica holds them, and no others.
   *
   * @throws SeineError as `JsonRpcSession.call`. If the server refused, it is as before.
   */
  async changeFilter(session: JsonRpcSession, { table, filter }: FilterChange, signal: AbortSignal): Promise<void> {
    const before = this.#filters.get(table) ?? everyRow;
    this.#filters.set(table, filter);
    const requests = JSON.stringify(this.#requests());
    const params = [this.#id, this.#id, { [table]: [{ where: filter }] }];
    try {
      // Only a change that the server has confirmed is one that it can go on from after the next connection.
      await session.call({ method: 'monitor_cond_change', params }, () => (this.#lastRequests = requests), signal);
    } catch (thrown) {
      const refused = thrown instanceof SeineError && thrown.code === 'REFUSED';
      if (refused && this.#filters.get(table) === filter) this.#filters.set(table, before);
      throw thrown;
    }
  }

  /** The session ended: the next call must be `start`. */
  stop(): void {
    this.#active = false;
  }

  /**
   * Takes a notification if it is for this monitor. After `cancelled` the server no longer tells us anything: `start` again.
   *
   * @throws SeineError `PROTOCOL` if it does not fit; the connection, and then the copy, must be made anew.
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
      if (!Array.isArray(result)) throw new SeineError('PROTOCOL', 'OVSDB: reply to monitor_cond_since is no array');
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
      // Unrequested rows would look as if they met the conditions.
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

  /** After an update that does not fit, the next server must send everything. */
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

/** Reads the part of a `<database-schema>` that tells which columns there are. */
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
