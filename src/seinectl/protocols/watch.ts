import { readFileSync } from 'node:fs';
import type { Readable } from 'node:stream';
import { type Command, Option } from 'commander';
import type { TlsCredentials } from '../../base/async/endpoint.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { OvsdbClient } from '../../ovsdb/client.ts';
import type { OvsdbClientHooks } from '../../ovsdb/client-options.ts';
import type { AnyChange } from '../../ovsdb/replica.ts';
import { databaseOf } from '../../ovsdb/schema/database-of.ts';
import { parseSchema } from '../../ovsdb/schema/database-schema.ts';
import type { Database } from '../../ovsdb/schema/table.ts';
import type { JsonRpcSession } from '../../ovsdb/session.ts';
import { askOnce } from '../../ovsdb/shared-request.ts';
import type { AnyRow } from '../../ovsdb/table-replica.ts';
import { safeLine, safeText } from '../escape.ts';
import { exitCodes } from '../exit-codes.ts';
import type { Terminal } from '../terminal.ts';
import { count } from '../words.ts';
import { changedColumns, columnsOf, jsonLine, rowJson, rowText, valueText } from './values.ts';
import type { WireContext } from './wire-context.ts';

interface WatchOptions {
  readonly json?: boolean;
  readonly database?: string;
  readonly privateKey?: string;
  readonly certificate?: string;
  readonly caCert?: string;
}

const usual = 'Open_vSwitch';
/** Database in which a server describes itself. */
const ownDatabase = '_Server';
/** Maximum size of output that was not read yet (bytes): more means that its reader has stopped. */
const maxUnreadBytes = 64 * 1024 * 1024;
/** Time limit for a server's first answers; then it counts as unavailable (ms). */
const answerWithinMs = 10_000;

const examples = `
SOCKET is a path, unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT. Without tables, all of them are followed.

Each change is one line: insert, modify or delete, the table, the row, and its columns (of a change, old -> new). SIGUSR1 prints all
rows; so does the end of standard input, which also ends the command. After a lost connection it reconnects and prints the missed changes.

Examples:
  seinectl wire watch /run/openvswitch/db.sock Port Interface
  seinectl wire watch unix:/run/openvswitch/db.sock --json < /dev/null     the whole database, once
  seinectl wire watch ssl:192.0.2.1:6640 --private-key key.pem --certificate cert.pem --ca-cert ca.pem

Exit codes: 0 it was ended; 2 no such table or database; 3 no server answers.`;

/** Adds `watch` to `seinectl wire`. */
export function addWatch(wire: Command, { terminal, stdin, exitWith }: WireContext): void {
  wire
    .command('watch')
    .description('follow the tables of an OVSDB server: each change, and all rows at the end; needs no agent')
    .argument('<socket>', 'where the server listens')
    .argument('[table...]', 'only these tables')
    .option('--json', 'one JSON object a line')
    .addOption(new Option('--database <name>', `the database, ${usual} if the server has it`))
    .option('--private-key <file>', 'for ssl: our key (PEM)')
    .option('--certificate <file>', 'for ssl: our certificate (PEM)')
    .option('--ca-cert <file>', "for ssl: CA of the server's certificate (PEM)")
    .addHelpText('after', examples)
    .action((socket: string, tables: readonly string[], options: WatchOptions) =>
      exitWith(watch({ socket, tables, options }, terminal, stdin)),
    );
}

interface MonitorTarget {
  readonly socket: string;
  readonly tables: readonly string[];
  readonly options: WatchOptions;
}

/** @returns the exit code */
async function watch(want: MonitorTarget, terminal: Terminal, stdin: Readable): Promise<number> {
  try {
    await follow(want, terminal, stdin);
    return exitCodes.ok;
  } catch (thrown) {
    const error = SeineError.from(thrown, 'watch');
    if (error.code === 'INVARIANT') throw error;
    terminal.remark(`seinectl: ${safeText(error.rawMessage)}`);
    return error.code === 'INVALID_INPUT' ? exitCodes.usage : exitCodes.unreachable;
  }
}

async function follow({ socket, tables, options }: MonitorTarget, terminal: Terminal, stdin: Readable): Promise<void> {
  const endpoint = /^[a-z]+:/.test(socket) ? socket : `unix:${socket}`;
  const server = { endpoint, ...(endpoint.startsWith('ssl:') ? { tls: credentialsOf(options) } : {}) };
  server.tls?.();
  const database = await askOnce(server, (session) => findDatabase(session, options.database), AbortSignal.timeout(answerWithinMs));
  const printer = printerOf(terminal, options.json === true);
  const stop = new AbortController();
  const stalled = new AbortController();
  const client = new OvsdbClient({
    ...server,
    database,
    monitor: selectionOf(database, tables),
    leader: 'not required',
    hooks: reporter(terminal, `${database.name} at ${safeLine(endpoint)}`),
  });
  let begun = false;
  const dump = (): void => {
    if (begun) printer.replica(client.snapshot());
  };
  const running = client.run(stop.signal);
  process.on('SIGUSR1', dump);
  try {
    await client.synced(stop.signal);
    begun = true;
    terminal.remark(`seinectl: ${count(rowsOf(client.snapshot()), 'row')} to begin with`);
    client.onChange((changes) => {
      if (process.stdout.writableLength > maxUnreadBytes) stalled.abort();
      else changes.forEach(printer.change);
    }, stop.signal);
    await ended(stdin, stalled.signal);
    if (stalled.signal.aborted) throw new SeineError('UNAVAILABLE', 'the reader of this output is too slow');
    dump();
  } finally {
    process.off('SIGUSR1', dump);
    stop.abort();
    await running;
  }
}

/** Reports the state of the connection on standard error; for an unavailable server once. */
function reporter(terminal: Terminal, what: string): OvsdbClientHooks {
  let state: 'starting' | 'up' | 'down' = 'starting';
  return {
    failed(cause) {
      if (state !== 'down') terminal.remark(`seinectl: connection lost: ${safeText(cause.rawMessage)}; retrying`);
      state = 'down';
    },
    synced() {
      terminal.remark(`seinectl: ${state === 'down' ? 'connected again to' : 'following'} ${what}`);
      state = 'up';
    },
  };
}

/** Finds the requested database and its schema. */
async function findDatabase(session: JsonRpcSession, wanted: string | undefined): Promise<Database> {
  const signal = AbortSignal.timeout(answerWithinMs);
  const listed = await session.call({ method: 'list_dbs', params: [] }, (result) => result, signal);
  // Versions of Open vSwitch have them in different orders.
  const names = (Array.isArray(listed) ? listed : []).filter((name) => typeof name === 'string').toSorted();
  const others = names.filter((name) => name !== ownDatabase);
  const name = wanted ?? (others.length === 1 ? others[0] : usual);
  if (name === undefined || !names.includes(name)) {
    throw new SeineError('INVALID_INPUT', `the server has no database ${name}; it has ${names.join(', ')}`);
  }
  return databaseOf(await session.call({ method: 'get_schema', params: [name] }, parseSchema, signal));
}

/** Selects every column of the requested tables. */
function selectionOf({ name, tables }: Database, wanted: readonly string[]): Readonly<Record<string, readonly string[]>> {
  const unknown = wanted.find((table) => !Object.hasOwn(tables, table));
  if (unknown !== undefined) {
    throw new SeineError('INVALID_INPUT', `${name} has no table ${unknown}; it has ${Object.keys(tables).toSorted().join(', ')}`);
  }
  const chosen = wanted.length === 0 ? Object.keys(tables).toSorted() : [...new Set(wanted)];
  return Object.fromEntries(chosen.map((table) => [table, Object.keys(tables[table]?.columns ?? {})]));
}

type Tables = Readonly<Record<string, ReadonlyMap<string, AnyRow>>>;

interface Printer {
  readonly change: (change: AnyChange) => void;
  readonly replica: (tables: Tables) => void;
}

function printerOf(terminal: Terminal, json: boolean): Printer {
  if (!json) {
    return {
      change: (change) => terminal.line(changeText(change)),
      replica(tables) {
        for (const [table, rows] of Object.entries(tables)) {
          terminal.line(`${table}: ${count(rows.size, 'row')}`);
          for (const row of sortedRows(rows)) terminal.line(`  ${row._uuid} ${rowText(row)}`.trimEnd());
        }
      },
    };
  }
  return {
    change: (change) => terminal.line(jsonLine(changeJson(change))),
    replica: (tables) => terminal.line(jsonLine({ replica: replicaJson(tables) })),
  };
}

function changeText({ table, uuid, before, after }: AnyChange): string {
  if (before === undefined) return `insert ${table} ${uuid} ${after === undefined ? '' : rowText(after)}`.trimEnd();
  if (after === undefined) return `delete ${table} ${uuid} ${rowText(before)}`.trimEnd();
  const columns = changedColumns(before, after).map((name) => `${name}: ${valueText(before[name])} -> ${valueText(after[name])}`);
  return `modify ${table} ${uuid} ${columns.join('; ')}`;
}

function changeJson({ table, uuid, before, after }: AnyChange): unknown {
  if (before === undefined) return { change: 'insert', table, uuid, after: after && rowJson(after, columnsOf(after)) };
  if (after === undefined) return { change: 'delete', table, uuid, before: rowJson(before, columnsOf(before)) };
  const columns = changedColumns(before, after);
  return { change: 'modify', table, uuid, before: rowJson(before, columns), after: rowJson(after, columns) };
}

function replicaJson(tables: Tables): unknown {
  const rowsOfTable = (rows: ReadonlyMap<string, AnyRow>) =>
    Object.fromEntries(sortedRows(rows).map((row) => [row._uuid, rowJson(row, columnsOf(row))]));
  return Object.fromEntries(Object.entries(tables).map(([table, rows]) => [table, rowsOfTable(rows)]));
}

/** Sorts by name if rows have one. */
function sortedRows(rows: ReadonlyMap<string, AnyRow>): readonly AnyRow[] {
  const key = (row: AnyRow): string => `${typeof row['name'] === 'string' ? row['name'] : ''} ${row._uuid}`;
  return [...rows.values()]
    .map((row) => ({ row, key: key(row) }))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1))
    .map(({ row }) => row);
}

function rowsOf(tables: Tables): number {
  return Object.values(tables).reduce((sum, rows) => sum + rows.size, 0);
}

/** Resolves when there is no more to read, or with the signal. */
function ended(stdin: Readable, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (stdin.readableEnded || stdin.destroyed) return resolve();
    signal.addEventListener('abort', () => resolve(), { once: true });
    for (const event of ['end', 'close', 'error']) stdin.once(event, () => resolve());
    stdin.resume();
  });
}

function credentialsOf({ privateKey, certificate, caCert }: WatchOptions): () => TlsCredentials {
  if (privateKey === undefined || certificate === undefined || caCert === undefined) {
    throw new SeineError('INVALID_INPUT', 'ssl: needs --private-key, --certificate and --ca-cert');
  }
  return () => ({ privateKey: pem(privateKey), certificate: pem(certificate), caCertificate: pem(caCert) });
}

function pem(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (thrown) {
    throw new SeineError('INVALID_INPUT', `${file} cannot be read`, { cause: thrown });
  }
}
