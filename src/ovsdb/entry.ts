/** Public interface of the package, `seine/ovsdb`. Inside the project, import the defining file. */
export type { TlsCredentials } from '../base/async/endpoint.ts';
// biome-ignore lint/performance/noBarrelFile: the entry of a package export has to be one file
export { localPolicy, type ReconnectPolicy } from '../base/async/reconnect.ts';
export { type ErrorCode, SeineError } from '../base/errors/seine-error.ts';
export type { BatchCounters } from './batcher.ts';
export { type Notification, OvsdbClient } from './client.ts';
export type { OvsdbClientCounters, OvsdbClientHooks, OvsdbClientOptions, OvsdbLimits, RowFilter, RowFilters } from './client-options.ts';
export { defaultFrameLimits, type FrameLimits, type JsonFrame, JsonFramer } from './framer.ts';
export { type Json, jsonInteger, parseJson, writeParsed } from './json.ts';
export { type Incoming, readMessage } from './json-rpc.ts';
export type { Lock, LockMode } from './lock.ts';
export type { AnyChange, RowChange, SelectedRow, Selection, Snapshot, Views } from './replica.ts';
export { type AtomType, isUuid, type Known, NewRow, parseUuid, type Uuid } from './schema/atoms.ts';
export type { Column, MapColumn, OptionalColumn, ScalarColumn, SetColumn } from './schema/columns.ts';
export { databaseOf } from './schema/database-of.ts';
export {
  type AtomKind,
  type AtomLiteral,
  type BaseType,
  type ColumnSchema,
  type DatabaseSchema,
  parseSchema,
  type TableSchema,
} from './schema/database-schema.ts';
export { generateTables } from './schema/generate.ts';
export { openVswitch } from './schema/open-vswitch.ts';
export { serverDatabase } from './schema/server.ts';
export type { ColumnName, Condition, ConditionFunction, Database, Mutation, Row, RowValues, Table, TableName } from './schema/table.ts';
export type { LeaderRule } from './server-watch.ts';
export {
  type CallRequest,
  defaultSessionLimits,
  JsonRpcSession,
  type JsonRpcSessionEvents,
  type Outlet,
  type SessionLimits,
} from './session.ts';
export { type AskOnceOptions, askOnce } from './shared-request.ts';
export type { AnyRow, TableView } from './table-replica.ts';
export type { Committed, FoundRows, RowCount, Transaction, WaitFor, Where } from './transaction.ts';
