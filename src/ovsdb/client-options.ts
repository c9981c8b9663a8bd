import type { TlsCredentials } from '../base/async/endpoint.ts';
import type { ReconnectPolicy } from '../base/async/reconnect.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import type { BatchCounters } from './batcher.ts';
import type { Selection } from './replica.ts';
import type { Condition, Database, TableName } from './schema/table.ts';
import type { LeaderRule } from './server-watch.ts';
import type { SessionLimits } from './session.ts';

/**
 * Selects rows of a table to replicate: all, none, or those that meet at least one of the conditions.
 *
 * Source: ovsdb-server(7) section 4.1.12, where conditions are joined by "or"; in a transaction they are joined by "and".
 */
export type RowFilter<D extends Database, T extends TableName<D>> = 'all' | 'none' | readonly [Condition<D, T>, ...Condition<D, T>[]];

export type RowFilters<D extends Database, S extends Selection<D>> = { readonly [T in keyof S & TableName<D>]?: RowFilter<D, T> };

/** Limits on the replica, independent of what the server sends. */
export interface OvsdbLimits extends SessionLimits {
  /** Maximum number of rows of the replica, all tables together. */
  readonly maxRows: number;
}

export interface OvsdbClientOptions<D extends Database, S extends Selection<D>> {
  /** Tables and columns that the program uses, e.g. `openVswitch` of `schema/open-vswitch.ts`. */
  readonly database: D;
  /**
   * `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`. If there are several (members of a cluster), the next is tried when one is lost or not
   * acceptable.
   */
  readonly endpoint: string | readonly string[];
  /** Called before each attempt to connect to an `ssl:` endpoint, so that renewed certificates are used. */
  readonly tls?: () => TlsCredentials;
  /** Default: `required`. Has no effect on a database that is not clustered. */
  readonly leader?: LeaderRule;
  /** Tables and columns to replicate. */
  readonly monitor: S;
  /** Rows to replicate; all, for tables without an entry. `filter` changes it later. */
  readonly rows?: RowFilters<D, S>;
  readonly reconnect?: ReconnectPolicy;
  readonly limits?: Partial<OvsdbLimits>;
  /** Maximum time for a transaction that does not block (ms), before the connection counts as broken. */
  readonly transactTimeoutMs?: number;
  readonly hooks?: OvsdbClientHooks;
}

/** Callbacks for logs and metrics; must not throw. */
export interface OvsdbClientHooks {
  /** Called when the client is connected and the replica is up to date. */
  readonly synced?: () => void;
  /** Called when an attempt or a connection failed; the next attempt follows. An `INVARIANT` is a bug of ours or of a listener. */
  readonly failed?: (cause: SeineError, waitMs: number) => void;
}

export interface OvsdbClientCounters extends Readonly<BatchCounters> {
  /** Times that the replica was synced with a new connection, or after the server had changed its schema. */
  readonly syncs: number;
}
