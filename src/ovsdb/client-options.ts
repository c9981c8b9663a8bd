import type { TlsCredentials } from '../base/async/endpoint.ts';
import type { ReconnectPolicy } from '../base/async/reconnect.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import type { BatchCounters } from './batcher.ts';
import type { Selection } from './replica.ts';
import type { Condition, Database, TableName } from './schema/table.ts';
import type { LeaderRule } from './server-watch.ts';
import type { SessionLimits } from './session.ts';

/**
 * Which rows of a table to hold: all, none, or those that meet at least one of the conditions.
 *
 * Source: ovsdb-server(7) section 4.1.12, where conditions are joined by "or"; in a transaction they are joined by "and".
 */
export type RowFilter<D extends Database, T extends TableName<D>> = 'all' | 'none' | readonly [Condition<D, T>, ...Condition<D, T>[]];

export type RowFilters<D extends Database, S extends Selection<D>> = { readonly [T in keyof S & TableName<D>]?: RowFilter<D, T> };

/** Limits on what is held, whatever the server sends. */
export interface OvsdbLimits extends SessionLimits {
  /** Rows of the copy, all tables together. */
  readonly maxRows: number;
}

export interface OvsdbClientOptions<D extends Database, S extends Selection<D>> {
  /** What to rely on, e.g. `openVswitch` of `schema/open-vswitch.ts`. */
  readonly database: D;
  /**
   * `unix:PATH`, `tcp:HOST:PORT` or `ssl:HOST:PORT`. Of several, the next is tried when one is lost or will not do: the members of
   * a cluster.
   */
  readonly endpoint: string | readonly string[];
  /** Asked before each attempt to connect to an `ssl:` endpoint, so that renewed certificates are taken. */
  readonly tls?: () => TlsCredentials;
  /** `required` unless said otherwise. Says nothing of a database that is not clustered. */
  readonly leader?: LeaderRule;
  /** The tables and columns to hold a copy of. */
  readonly monitor: S;
  /** The rows to hold; all, of tables that are not named. `filter` changes it later. */
  readonly rows?: RowFilters<D, S>;
  readonly reconnect?: ReconnectPolicy;
  readonly limits?: Partial<OvsdbLimits>;
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
  /** Times that the copy was brought up to date with a new connection, or after the server had changed its schema. */
  readonly syncs: number;
}
