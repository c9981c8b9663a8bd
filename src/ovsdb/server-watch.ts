import { SeineError } from '../base/errors/seine-error.ts';
import { Monitor, readServerColumns } from './monitor.ts';
import { Replica } from './replica.ts';
import type { Uuid } from './schema/atoms.ts';
import { serverDatabase } from './schema/server.ts';
import type { Row } from './schema/table.ts';
import type { JsonRpcSession } from './session.ts';

/** Clustered database: whether only the leader is acceptable. A follower answers from a copy that may be outdated. */
export type LeaderRule = 'required' | 'not required';

const columns = ['name', 'model', 'connected', 'leader', 'cid', 'index'] as const;
type DatabaseRow = Row<typeof serverDatabase, 'Database', (typeof columns)[number]>;

const monitorId = 'server';

/**
 * Row of one database in the database `_Server`, and the decision whether the server is acceptable.
 *
 * Source: ovsdb-server(7) section 4.1.16 "Set_db_change_aware"; ovsdb(7) "Database Change Awareness", "Clustered Database Service Model".
 */
export class ServerWatch {
  readonly #database: string;
  readonly #leader: LeaderRule;
  readonly #replica = new Replica(serverDatabase, { Database: columns });
  readonly #monitor = new Monitor(this.#replica, { database: serverDatabase.name, id: monitorId });
  #known = false;
  /** Last index seen of a cluster's log: a member with a lower one has an older state. */
  #seen: { readonly cluster: Uuid | undefined; readonly index: bigint } | undefined;

  /** @param changed called when the row changes */
  constructor(database: string, leader: LeaderRule, changed: () => void) {
    this.#database = database;
    this.#leader = leader;
    this.#replica.listen(() => {
      this.#remember();
      changed();
    }, neverAborted);
  }

  /**
   * Starts monitoring. Servers before Open vSwitch 2.9 have no `_Server`, which is accepted.
   *
   * @throws SeineError like `JsonRpcSession.call`.
   */
  async start(session: JsonRpcSession, signal: AbortSignal): Promise<void> {
    this.#known = false;
    try {
      // After this, the server reports changes to its databases instead of closing the connection.
      await session.call({ method: 'set_db_change_aware', params: [true] }, () => undefined, signal);
      const available = await session.call({ method: 'get_schema', params: [serverDatabase.name] }, readServerColumns, signal);
      await this.#monitor.start(session, available, signal);
      this.#known = true;
    } catch (thrown) {
      if (!(thrown instanceof SeineError && thrown.code === 'REFUSED')) throw thrown;
    }
  }

  stop(): void {
    this.#known = false;
    this.#monitor.stop();
  }

  notified(method: string, params: readonly unknown[]): ReturnType<Monitor['notified']> {
    return this.#monitor.notified(method, params);
  }

  /** Reason why this server is not acceptable; `undefined` if it is. */
  get objection(): string | undefined {
    if (!this.#known) return undefined;
    const row = this.#row();
    if (row === undefined) return `the server has no database ${this.#database}`;
    if (row.model === 'standalone') return undefined;
    if (!row.connected) return `the server has no contact with the rest of ${this.#database}`;
    if (row.model === 'clustered' && !row.leader && this.#leader === 'required') return `the server is not the leader of ${this.#database}`;
    return this.#isBehind(row) ? `the server's copy of ${this.#database} is older than what we have seen` : undefined;
  }

  #row(): DatabaseRow | undefined {
    const rows = this.#replica.tables.get('Database')?.rows() ?? [];
    // The replica has the same columns.
    for (const row of rows) if (row['name'] === this.#database) return row as DatabaseRow;
    return undefined;
  }

  #remember(): void {
    const row = this.#row();
    if (row === undefined || this.#isBehind(row)) return;
    this.#seen = { cluster: row.cid, index: row.index ?? 0n };
  }

  #isBehind({ cid, index = 0n }: DatabaseRow): boolean {
    return this.#seen !== undefined && this.#seen.cluster === cid && index < this.#seen.index;
  }
}

const neverAborted = new AbortController().signal;
