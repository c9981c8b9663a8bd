import type { Socket } from 'node:net';
import { dialEndpoint, parseEndpoint } from '../async/endpoint.ts';
import { type Conversation, keepConnected } from '../async/keep-connected.ts';
import { localPolicy, type ReconnectPolicy } from '../async/reconnect.ts';
import { Waiters } from '../async/waiters.ts';
import { SeineError } from '../errors/seine-error.ts';
import { type BatchCounters, Batcher, readResults } from './batcher.ts';
import { followChanges } from './change-feed.ts';
import { defaultFrameLimits, type FrameLimits } from './framer.ts';
import type { Json } from './json.ts';
import { Lock } from './lock.ts';
import { Monitor, readServerColumns } from './monitor.ts';
import { Replica, type RowChange, type Selection, type Views } from './replica.ts';
import type { Database } from './schema/table.ts';
import { JsonRpcSession } from './session.ts';
import { type Committed, Transaction } from './transaction.ts';

export interface OvsdbClientOptions<D extends Database, S extends Selection<D>> {
  /** What to rely on, e.g. `openVswitch` of `schema/open-vswitch.ts`. */
  readonly database: D;
  /** `unix:PATH` or `tcp:HOST:PORT`. */
  readonly endpoint: string;
  /** The tables and columns to hold a copy of. */
  readonly monitor: S;
  readonly reconnect?: ReconnectPolicy;
  readonly limits?: FrameLimits;
  /** How long the server may take over a transaction that does not block, before the connection counts as broken. */
  readonly transactTimeoutMs?: number;
  readonly hooks?: OvsdbClientHooks;
}

/** For logs and metrics; must not throw. */
export interface OvsdbClientHooks {
  /** Connected, and the copy is up to date. */
  readonly synced?: () => void;
  /** An attempt or a connection failed; the next attempt follows. An `INVARIANT` is a bug of ours or of a listener. */
  readonly failed?: (cause: SeineError, waitMs: number) => void;
}

export interface OvsdbClientCounters extends Readonly<BatchCounters> {
  /** Times that the copy was brought up to date with a new connection. */
  readonly syncs: number;
}

/**
 * A client of one database of an OVSDB server (RFC 7047), which keeps itself connected and holds a copy of what it was asked
 * to. Nothing happens before `run`.
 */
export class OvsdbClient<D extends Database, const S extends Selection<D>> {
  /** The copy. While disconnected it shows the last state known. */
  readonly tables: Views<D, S>;
  readonly #options: OvsdbClientOptions<D, S>;
  readonly #replica: Replica;
  readonly #monitor: Monitor;
  readonly #batcher = new Batcher();
  readonly #locks = new Map<string, Lock>();
  readonly #syncing: Waiters;
  #session: JsonRpcSession | undefined;
  #synced = false;
  #syncs = 0;
  #lastName = 0;

  /** @throws SeineError `INVARIANT` if the database has no such table or column; `INVALID_INPUT` if the endpoint is none. */
  constructor(options: OvsdbClientOptions<D, S>) {
    this.#options = options;
    parseEndpoint(options.endpoint);
    this.#replica = new Replica(options.database, options.monitor);
    this.#monitor = new Monitor(this.#replica, options.database.name);
    this.#syncing = new Waiters(`the copy of ${options.database.name} at ${options.endpoint}`);
    const tables: object = Object.fromEntries(this.#replica.tables);
    // The replica was made from the same selection that the type is made from.
    this.tables = tables as Views<D, S>;
  }

  /** Connected, and the copy is up to date. */
  get isSynced(): boolean {
    return this.#synced;
  }

  get counters(): OvsdbClientCounters {
    return { ...this.#batcher.counters, syncs: this.#syncs };
  }

  /** Keeps connected until the signal. Never rejects; call it once. */
  async run(signal: AbortSignal): Promise<void> {
    const { endpoint, reconnect = localPolicy, hooks } = this.#options;
    const parsed = parseEndpoint(endpoint);
    await keepConnected(
      {
        peer: `ovsdb ${endpoint}`,
        dial: () => dialEndpoint(parsed),
        policy: reconnect,
        open: (socket) => this.#open(socket, signal),
        failed: (cause, waitMs) => hooks?.failed?.(cause, waitMs),
      },
      signal,
    );
  }

  /** @throws SeineError `CANCELLED` if the signal comes before the copy is up to date. */
  async synced(signal: AbortSignal): Promise<void> {
    await this.#syncing.wait(() => (this.#synced ? true : undefined), signal);
  }

  /**
   * Calls back with the rows that changed, after each update and, with exactly the differences, after each reconnect. The
   * copy shows exactly that state during the call. The listener must not throw.
   */
  onChange(listener: (changes: readonly RowChange<D, S>[]) => void, signal: AbortSignal): void {
    // The replica tells only about tables and columns of the selection that the type is made from.
    this.#replica.listen((changes) => listener(changes as readonly RowChange<D, S>[]), signal);
  }

  /**
   * The same changes for a consumer that works on them asynchronously: what happens meanwhile is added up, so that it gets
   * at most one change a row however long it takes. Ends with the signal.
   */
  changes(signal: AbortSignal): AsyncGenerator<readonly RowChange<D, S>[], void, void> {
    return followChanges(this.#replica, signal) as AsyncGenerator<readonly RowChange<D, S>[], void, void>;
  }

  /**
   * Has the server carry out a transaction, possibly together with those of other callers, whose failures it does not share.
   * Waits for a connection as long as the signal lets it.
   *
   * @param describe says what to do; runs at once
   * @throws SeineError
   * - `REFUSED`: nothing was done. `context.error` and `context.details` are the server's words (RFC 7047 section 5.2).
   * - `UNAVAILABLE`: with `context.sent` the outcome is unknown: look at the copy once it is up to date again.
   * - `CANCELLED`: the signal came first; with `context.sent` the outcome is unknown.
   * - `INVALID_INPUT`: a value has no form in its column. Nothing was sent.
   */
  async transact(describe: (transaction: Transaction<D>) => void, signal: AbortSignal): Promise<Committed> {
    const transaction = new Transaction(this.#options.database, () => this.#newName());
    describe(transaction);
    const results = transaction.blocks
      ? await this.#transactAlone(transaction.operations, signal)
      : await this.#batcher.submit(transaction.operations, signal);
    return transaction.committed(results);
  }

  /** Asks for a lock, over every connection anew, until it is released. */
  lock(name: string): Lock {
    if (this.#locks.has(name)) throw new SeineError('INVARIANT', `OVSDB lock ${name} is asked for twice`);
    const lock = new Lock(name, () => this.#locks.delete(name));
    this.#locks.set(name, lock);
    if (this.#synced && this.#session !== undefined) lock.connected(this.#session);
    return lock;
  }

  /**
   * Any other method of the protocol: `list_dbs`, `get_schema`, `get_server_id`, …
   *
   * @throws SeineError as `JsonRpcSession.call`.
   */
  async call(method: string, params: Json, signal: AbortSignal): Promise<unknown> {
    await this.synced(signal);
    return this.#connected().call({ method, params }, (result) => result, signal);
  }

  async #transactAlone(operations: readonly Json[], signal: AbortSignal): Promise<readonly unknown[]> {
    await this.synced(signal);
    const params = [this.#options.database.name, ...operations];
    return this.#connected().call({ method: 'transact', params }, (result) => readResults(result, operations), signal);
  }

  #open(socket: Socket, signal: AbortSignal): Conversation {
    const { limits = defaultFrameLimits } = this.#options;
    const session = new JsonRpcSession(
      socket,
      { notified: (method, params) => this.#notified(method, params), closed: () => this.#closed() },
      limits,
    );
    this.#session = session;
    this.#begin(session, socket, signal).catch((thrown: unknown) => socket.destroy(SeineError.from(thrown, 'ovsdb: begin of a session')));
    return session;
  }

  async #begin(session: JsonRpcSession, socket: Socket, signal: AbortSignal): Promise<void> {
    const { database } = this.#options;
    const columns = await session.call({ method: 'get_schema', params: [database.name] }, readServerColumns, signal);
    if (this.#replica.tables.size > 0) await this.#monitor.start(session, columns, signal);
    if (this.#session !== session) return;
    this.#synced = true;
    this.#syncs += 1;
    // Locks first: the server answers in order, and what is queued may assert one.
    for (const lock of this.#locks.values()) lock.connected(session);
    this.#batcher.connect((operations) => this.#send(session, socket, operations));
    this.#options.hooks?.synced?.();
    this.#syncing.poke();
  }

  /** A server that goes on answering probes but not this transaction would hold up all others. */
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
    if (this.#monitor.notified(method, params) === 'taken') return;
    const [name] = params;
    if (method === 'locked' && typeof name === 'string') this.#locks.get(name)?.granted();
    if (method === 'stolen' && typeof name === 'string') this.#locks.get(name)?.stolen();
  }

  #closed(): void {
    this.#session = undefined;
    this.#synced = false;
    this.#monitor.stop();
    this.#batcher.disconnect();
    for (const lock of this.#locks.values()) lock.disconnected();
  }

  #connected(): JsonRpcSession {
    if (this.#session === undefined) throw new SeineError('UNAVAILABLE', 'ovsdb: not connected', { context: { sent: false } });
    return this.#session;
  }

  /** `<id>` of RFC 7047: unique among all that may share a transaction, hence for the whole client. */
  #newName(): string {
    this.#lastName += 1;
    return `row${this.#lastName}`;
  }
}

const neverAborted = new AbortController().signal;
