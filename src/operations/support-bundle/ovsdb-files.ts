import { SeineError } from '../../base/errors/seine-error.ts';
import type { Json } from '../../ovsdb/json.ts';
import { databaseOf } from '../../ovsdb/schema/database-of.ts';
import { parseSchema } from '../../ovsdb/schema/database-schema.ts';
import type { JsonRpcSession } from '../../ovsdb/session.ts';
import { askOnce } from '../../ovsdb/shared-request.ts';
import type { BundlePart } from './collect.ts';
import { plainJson } from './plain-json.ts';

const database = 'Open_vSwitch';

/** All tables and columns of Open vSwitch's database, as the server has them (RFC 7047 notation). */
export function ovsdbParts(socketPath: string): readonly BundlePart[] {
  const endpoint = `unix:${socketPath}`;
  return [
    { name: 'ovsdb/databases.json', gather: (signal) => askOnce({ endpoint }, (session) => databases(session, signal), signal) },
    { name: 'ovsdb/open-vswitch.json', gather: (signal) => askOnce({ endpoint }, (session) => everyRow(session, signal), signal) },
  ];
}

async function databases(session: JsonRpcSession, signal: AbortSignal): Promise<string> {
  return plainJson(await session.call({ method: 'list_dbs', params: [] }, (result) => result, signal));
}

async function everyRow(session: JsonRpcSession, signal: AbortSignal): Promise<string> {
  const schema = databaseOf(await session.call({ method: 'get_schema', params: [database] }, parseSchema, signal));
  const tables = Object.keys(schema.tables).toSorted();
  const selects = tables.map((table): Json => ({ op: 'select', table, where: [] }));
  const results = await session.call({ method: 'transact', params: [database, ...selects] }, listOf, signal);
  return plainJson(Object.fromEntries(tables.map((table, at) => [table, rowsOf(results[at])])));
}

function listOf(result: unknown): readonly unknown[] {
  if (!Array.isArray(result)) throw new SeineError('PROTOCOL', 'the answer to a transaction is not a list');
  return result;
}

function rowsOf(result: unknown): unknown {
  return typeof result === 'object' && result !== null && 'rows' in result ? result.rows : result;
}
