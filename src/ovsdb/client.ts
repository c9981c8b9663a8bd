import type { Socket } from 'node:net';
import { dialEndpoint, parseEndpoint, type SocketEndpoint } from '../base/async/endpoint.ts';
import { type Conversation, keepConnected } from '../base/async/keep-connected.ts';
import { notifyAll } from '../base/async/notify-all.ts';
import { localPolicy } from '../base/async/reconnect.ts';
import { Waiters } from '../base/async/waiters.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { Batcher, readResults } from './batcher.ts';
import { followChanges } from './change-feed.ts';
import type { OvsdbClientCounters, OvsdbClientOptions, RowFilter } from './client-options.ts';
import type { Json } from './json.ts';
import { Lock, type LockMode } from './lock.ts';
import { type EncodedFilter, everyRow, Monitor, noRow, readServerColumns } from './monitor.ts';
import { Replica, type RowChange, type Selection, type Snapshot, type Views } from './replica.ts';
import { encodeConditions } from './row-codec.ts';
import { type DatabaseSchema, parseSchema } from './schema/database-schema.ts';
import type { Database, TableName } from './schema/table.ts';
import { ServerWatch } from './server-watch.ts';
import { type CallRequest, defaultSessionLimits, JsonRpcSession } from './session.ts';
import { type Committed, Transaction } from './transaction.ts';

/** Unsolicited message that no part of the client handled: updates of monitors that the program requested with `call`. */
export interface Notification {
  readonly method: string;
  readonly params: readonly unknown[];
}

/** State of one connection, from its opening to its end. */
interface LiveConnection {
  readonly session: JsonRpcSession;
  readonly socket: Socket;
  readonly signal: AbortSignal;
  /** Number of times that the replica was restarted on this connection. */
  round: number;
}

/**
 * Client of one database of an OVSDB server (RFC 7047), which reconnects and replicates the selected tables. Nothing happens before `run`.
 */
export class OvsdbClient<D extends Database, const S extends Selection<D>> {
  /** Replica. While disconnected it shows the last known state. */
  readonly tables: Views<D, S>;
  readonly #options: OvsdbClientOptions<D, S>;
  readonly #endpoints: readonly SocketEndpoint[];
  readonly #peer: string;
  readonly #replica: Replica;
  readonly #monitor: Monitor;
  readonly #server: ServerWatch;
  readonly #batcher = new Batcher();
  readonly #locks = new Map<string, Lock>();
  readonly #listeners = new Set<(reported: Notification) => void>();
  readonly #syncing: Waiters;
  #attempts = 0;
  #live: LiveConnection | undefined;
  #synced = false;
  #syncs = 0;
  #lastName = 0;

  /**
   * @throws SeineError `INVARIANT` if the database has no such table or column; `INVALID_INPUT` if an endpoint is invalid or lacks its
   *   credentials, or a condition does not fit its column.
   */
  constructor(options: OvsdbClientOptions<D, S>) {
    this.#options = options;
    const { database, endpoint, limits } = options;
    const endpoints = typeof endpoint === 'string' ? [endpoint] : endpoint;
    this.#endpoints = endpoints.map((text) => checkedEndpoint(text, options));
    if (this.#endpoints.length === 0) throw new SeineError('INVALID_INPUT', 'an OVSDB client needs an endpoint');
    this.#peer = `ovsdb ${endpoints.join(',')}`;
    this.#replica = new Replica(database, options.monitor, limits?.maxRows);
    this.#monitor = new Monitor(this.#replica, { database: database.name, id: 'replica' });
    this.#server = new ServerWatch(database.name, options.leader ?? 'required', () => this.#serverChanged());
    this.#syncing = new Waiters(`the copy of ${database.name} at ${endpoints.join(',')}`);
    const filters: Readonly<Record<string, RowFilter<D, TableName<D>> | undefined>> = options.rows ?? {};
    for (const [table, filter] of Object.entries(filters)) this.#monitor.setFilter(table, this.#encodeFilter(table, filter ?? 'all'));
    const tables: object = Object.fromEntries(this.#replica.tables);
    // The replica and the type are made from the same selection.
    this.tables = tables as Views<D, S>;
  }

  /** True if the client is connected and the replica is up to date. */
  get isSynced(): boolean {
    return this.#synced;
  }

  get counters(): OvsdbClientCounters {
    return { ...this.#batcher.counters, syncs: this.#syncs };
  }

  /** Stays connected until the signal is aborted. Never rejects; call it once. */
  async run(signal: AbortSignal): Promise<void> {
    const { reconnect = localPolicy, hooks } = this.#options;
    await keepConnected(
      {
        peer: this.#peer,
        dial: () => this.#dial(),
        policy: reconnect,
        open: (socket) => this.#open(socket, signal),
        failed: (cause, waitMs) => hooks?.failed?.(cause, waitMs),
      },
      signal,
    );
  }

  /** @throws SeineError `CANCELLED` if the signal is aborted before the replica is up to date. */
  async synced(signal: AbortSignal): Promise<void> {
    await this.#syncing.wait(() => (this.#synced ? true : undefined), signal);
  }

  /**
   * Calls the listener with the rows that changed, after each update and, with exactly the differences, after each reconnect. The replica
   * shows exactly that state during the call. The listener must not throw.
   */
  onChange(listener: (changes: readonly RowChange<D, S>[]) => void, signal: AbortSignal): void {
    // The replica reports only tables and columns of the selection that the type is made from.
    this.#replica.listen((changes) => listener(changes as readonly RowChange<D, S>[]), signal);
  }

  /**
   * Yields the same changes to an asynchronous consumer: changes that happen meanwhile are merged, so that it gets at most one change per
   * row however long it takes. Ends with the signal.
   */
  changes(signal: AbortSignal): AsyncGenerator<readonly RowChange<D, S>[], void, void> {
    return followChanges(this.#replica, signal) as AsyncGenerator<readonly RowChange<D, S>[], void, void>;
  }

  /** Returns all rows of this moment, independent of later changes. */
  snapshot(): Snapshot<D, S> {
    const tables: object = Object.fromEntries(this.#replica.snapshot());
    return tables as Snapshot<D, S>;
  }

  /**
   * Changes the rows of a table to replicate. Resolves when the replica has exactly these; listeners are called with the difference.
   *
   * @throws SeineError `INVALID_INPUT` if a condition does not fit its column; `REFUSED` if the server does not accept it, which leaves the
   *   filter unchanged; `UNAVAILABLE` if the connection was lost meanwhile, and `CANCELLED`: the replica will have them after the next
   *   sync.
   */
  async filter<T extends keyof S & TableName<D>>(table: T, rows: RowFilter<D, T>, signal: AbortSignal): Promise<void> {
    const filter = this.#encodeFilter(table, rows);
    await this.synced(signal);
    await this.#monitor.changeFilter(this.#connected(), { table, filter }, signal);
  }

  /**
   * Executes a transaction, possibly together with those of other callers, whose failures it does not share. Waits for a connection until
   * the signal is aborted.
   *
   * @param describe builds the transaction; called synchronously
   * @throws SeineError
   * - `REFUSED`: nothing was done. `context.error` and `context.details` are the server's words (RFC 7047 section 5.2).
   * - `UNAVAILABLE`: with `context.sent` the outcome is unknown: read the replica once it is up to date again.
   * - `CANCELLED`: the signal was aborted first; with `context.sent` the outcome is unknown.
   * - `INVALID_INPUT`: a value has no form in its column, or the schema forbids it. Nothing was sent.
   */
  async transact(describe: (transaction: Transaction<D>) => void, signal: AbortSignal): Promise<Committed> {
    const transaction = new Transaction(this.#options.database, () => this.#newName());
    describe(transaction);
    const results = transaction.blocks
      ? await this.#transactAlone(transaction.operations, signal)
      : await this.#batcher.submit(transaction.operations, signal);
    return transaction.committed(results);
  }

  /** Requests a lock, on every connection again, until it is released. */
  lock(name: string, mode: LockMode = 'queue'): Lock {
    if (this.#locks.has(name)) throw new SeineError('INVARIANT', `OVSDB lock ${name} is requested twice`);
    const lock = new Lock(name, mode, () => this.#locks.delete(name));
    this.#locks.set(name, lock);
    if (this.#synced && this.#live !== undefined) lock.connected(this.#live.session);
    return lock;
  }

  /**
   * Calls any method of the protocol.
   *
   * @throws SeineError like `JsonRpcSession.call`.
   */
  async call(method: string, params: Json, signal: AbortSignal): Promise<unknown> {
    return await this.#ask({ method, params }, (result) => result, signal);
  }

  /** Notifications of monitors that were requested with `call`. The listener must not throw. */
  onNotification(listener: (reported: Notification) => void, signal: AbortSignal): void {
    if (signal.aborted) return;
    this.#listeners.add(listener);
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true });
  }

  /** Returns the names of the server's databases. @throws SeineError like `call`. */
  async databases(signal: AbortSignal): Promise<readonly string[]> {
    return await this.#ask({ method: 'list_dbs', params: [] }, readNames, signal);
  }

  /** Returns the current schema of the server's database. @throws SeineError like `call`. */
  async schema(signal: AbortSignal): Promise<DatabaseSchema> {
    return await this.#ask({ method: 'get_schema', params: [this.#options.database.name] }, parseSchema, signal);
  }

  /** Returns the identifier of the server process. @throws SeineError like `call`. */
  async serverId(signal: AbortSignal): Promise<string> {
    return await this.#ask({ method: 'get_server_id', params: [] }, readText, signal);
  }

  /**
   * Converts the database to another schema, in the format of an `.ovsschema` file. The replica is then recreated.
   *
   * @throws SeineError like `call`.
   */
  async convert(schema: Json, signal: AbortSignal): Promise<void> {
    await this.#ask({ method: 'convert', params: [this.#options.database.name, schema] }, () => undefined, signal);
  }

  async #ask<T>(request: CallRequest, read: (result: unknown) => T, signal: AbortSignal): Promise<T> {
    await this.synced(signal);
    return await this.#connected().call(request, read, signal);
  }

  async #transactAlone(operations: readonly Json[], signal: AbortSignal): Promise<readonly unknown[]> {
    const params = [this.#options.database.name, ...operations];
    return await this.#ask({ method: 'transact', params, cancellable: true }, (result) => readResults(result, operations), signal);
  }

  #dial(): Socket {
    const endpoint = this.#endpoints[this.#attempts % this.#endpoints.length];
    this.#attempts += 1;
    if (endpoint === undefined) throw new SeineError('INVARIANT', 'an OVSDB client without an endpoint');
    return dialEndpoint(endpoint, endpoint.kind === 'ssl' ? this.#options.tls?.() : undefined);
  }

  #open(socket: Socket, signal: AbortSignal): Conversation {
    const session = new JsonRpcSession(
      socket,
      { notified: (method, params) => this.#notified(method, params), closed: () => this.#closed() },
      { ...defaultSessionLimits, ...this.#options.limits },
    );
    const life: LiveConnection = { session, socket, signal, round: 0 };
    this.#live = life;
    this.#server.start(session, signal).then(
      () => this.#begin(life),
      (thrown: unknown) => giveUp(life, thrown),
    );
    return session;
  }

  /** Brings the replica up to date, for the first time on this connection or after the server has cancelled the monitor. */
  #begin(life: LiveConnection): void {
    life.round += 1;
    this.#synced = false;
    this.#batcher.disconnect();
    this.#follow(life, life.round).catch((thrown: unknown) => giveUp(life, thrown));
  }

  async #follow(life: LiveConnection, round: number): Promise<void> {
    const { session, socket, signal } = life;
    this.#checkServer();
    const params = [this.#options.database.name];
    const columns = await session.call({ method: 'get_schema', params }, readServerColumns, signal);
    if (this.#replica.tables.size > 0) await this.#monitor.start(session, columns, signal);
    if (this.#live !== life || life.round !== round) return;
    this.#checkServer();
    this.#synced = true;
    this.#syncs += 1;
    // Locks first: the server answers in order, and queued transactions may assert one.
    for (const lock of this.#locks.values()) lock.connected(session);
    this.#batcher.connect((operations) => this.#send(session, socket, operations));
    this.#options.hooks?.synced?.();
    this.#syncing.poke();
  }

  /** A server that answers probes but not this transaction would block all others. */
  async #send(session: JsonRpcSession, socket: Socket, operations: readonly Json[]): Promise<unknown> {
    const { database, transactTimeoutMs = 30_000 } = this.#options;
    const late = (): void => {
      socket.destroy(new SeineError('UNAVAILABLE', `ovsdb: no reply to a transaction within ${transactTimeoutMs} ms`));
    };
    const timer = setTimeout(late, transactTimeoutMs);
    try {
      return await session.call({ method: 'transact', params: [database.name, ...operations] }, (result) => result, neverAborted);
    } finally {
      clearTimeout(timer);
    }
  }

  #notified(method: string, params: readonly unknown[]): void {
    const ours = this.#monitor.notified(method, params);
    if (ours === 'cancelled' && this.#live !== undefined) this.#begin(this.#live);
    if (ours !== 'not mine' || this.#server.notified(method, params) !== 'not mine') return;
    const [name] = params;
    const lock = typeof name === 'string' ? this.#locks.get(name) : undefined;
    if (method === 'locked') lock?.granted();
    else if (method === 'stolen') lock?.stolen();
    else if (this.#listeners.size > 0) notifyAll(this.#listeners, { method, params });
    else if (method.startsWith('update')) throw new SeineError('PROTOCOL', 'OVSDB: update for a monitor that we do not have');
  }

  #serverChanged(): void {
    if (this.#live === undefined || !this.#synced) return;
    try {
      this.#checkServer();
    } catch (thrown) {
      giveUp(this.#live, thrown);
    }
  }

  #checkServer(): void {
    const { objection } = this.#server;
    if (objection !== undefined) throw new SeineError('UNAVAILABLE', `${this.#peer}: ${objection}`);
  }

  #closed(): void {
    this.#live = undefined;
    this.#synced = false;
    this.#monitor.stop();
    this.#server.stop();
    this.#batcher.disconnect();
    for (const lock of this.#locks.values()) lock.disconnected();
  }

  #connected(): JsonRpcSession {
    if (this.#live === undefined) throw new SeineError('UNAVAILABLE', 'ovsdb: not connected', { context: { sent: false } });
    return this.#live.session;
  }

  #encodeFilter<T extends TableName<D>>(table: T, rows: RowFilter<D, T>): EncodedFilter {
    if (rows === 'all') return everyRow;
    return rows === 'none' ? noRow : encodeConditions(this.#options.database, table, rows);
  }

  /** Returns an `<id>` of RFC 7047: unique among all that may share a transaction, hence for the whole client. */
  #newName(): string {
    this.#lastName += 1;
    return `row${this.#lastName}`;
  }
}

function checkedEndpoint(text: string, { tls }: { readonly tls?: unknown }): SocketEndpoint {
  const endpoint = parseEndpoint(text);
  if (endpoint.kind === 'ssl' && tls === undefined) throw new SeineError('INVALID_INPUT', `endpoint ${text} needs a key and certificates`);
  return endpoint;
}

function giveUp({ socket }: LiveConnection, thrown: unknown): void {
  socket.destroy(SeineError.from(thrown, 'ovsdb: begin of a session'));
}

function readNames(result: unknown): readonly string[] {
  if (Array.isArray(result) && result.every((name) => typeof name === 'string')) return result;
  throw new SeineError('PROTOCOL', 'OVSDB: list of databases is not an array of names');
}

function readText(result: unknown): string {
  if (typeof result === 'string') return result;
  throw new SeineError('PROTOCOL', 'OVSDB: identity of the server is not a string');
}

const neverAborted = new AbortController().signal;
