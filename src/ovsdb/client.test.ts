import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localPolicy } from '../base/async/reconnect.ts';
import type { SeineError } from '../base/errors/seine-error.ts';
import { OvsdbClient } from './client.ts';
import type { OvsdbClientOptions } from './client-options.ts';
import { parseUuid } from './schema/atoms.ts';
import { openVswitch } from './schema/open-vswitch.ts';

const row = parseUuid('aaaaaaaa-0000-0000-0000-000000000000');
const someTransaction = 'cccccccc-0000-0000-0000-000000000000';
const noTransaction = '00000000-0000-0000-0000-000000000000';

interface Request {
  readonly id: number;
  readonly method: string;
  readonly params: readonly unknown[];
}

/** Answer of a scripted server: a result, an error, raw bytes, or none. */
type Answer = { readonly result: unknown } | { readonly error: unknown } | { readonly raw: string } | 'silence' | 'hang up';

let dir: string;
let server: Server;
let sockets: Socket[];
let requests: Request[];
let answer: (request: Request) => Answer;
let stop: AbortController;
let failures: SeineError[];

const schema = { tables: { Bridge: { columns: { name: {}, ports: {}, _uuid: {} } } } };

/** Answers of a small database of one bridge that knows every method. */
function ordinary({ method }: Request): Answer {
  switch (method) {
    case 'get_schema':
      return { result: schema };
    case 'monitor_cond_since':
      return { result: [false, noTransaction, { Bridge: { [row]: { initial: { name: 'br' } } } }] };
    default:
      return { result: [] };
  }
}

beforeEach(async () => {
  dir = mkdtempSync('/tmp/seine-ovsdb-');
  sockets = [];
  requests = [];
  failures = [];
  answer = ordinary;
  stop = new AbortController();
  server = createServer((socket) => {
    sockets.push(socket);
    socket.on('error', () => {});
    socket.on('data', (chunk) => serve(socket, String(chunk)));
  });
  server.listen(`${dir}/s`);
  await once(server, 'listening');
});

afterEach(() => {
  stop.abort();
  for (const socket of sockets) socket.destroy();
  server.close();
  rmSync(dir, { recursive: true });
});

/** Our client's messages are small, and each arrives in one chunk. */
function serve(socket: Socket, text: string): void {
  for (const line of text.replaceAll('}{"method"', '}\n{"method"').split('\n')) {
    const request: Request = JSON.parse(line);
    if (request.method === 'set_db_change_aware' || request.params[0] === '_Server') {
      socket.write(JSON.stringify({ id: request.id, error: 'unknown method' }));
      continue;
    }
    requests.push(request);
    const given = answer(request);
    if (given === 'hang up') socket.destroy();
    else if (given !== 'silence')
      socket.write('raw' in given ? given.raw : JSON.stringify({ id: request.id, error: null, result: null, ...given }));
  }
}

const monitor = { Bridge: ['name', 'ports', 'datapath_version'] } as const;
type Options = OvsdbClientOptions<typeof openVswitch, typeof monitor>;

function methods(): string[] {
  return requests.map(({ method }) => method);
}

function client(transactTimeoutMs = 5_000, more: Partial<Options> = {}) {
  const created = new OvsdbClient({
    database: openVswitch,
    endpoint: `unix:${dir}/s`,
    monitor,
    ...more,
    reconnect: { ...localPolicy, minBackoffMs: 2 },
    transactTimeoutMs,
    hooks: { failed: (cause) => failures.push(cause) },
  });
  void created.run(stop.signal);
  return created;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 1));
}

describe('OvsdbClient', () => {
  it('requests only columns that the server has, and reads the rest as default', async () => {
    const connected = client();
    await connected.synced(stop.signal);
    expect(requests[1]?.params).toEqual(['Open_vSwitch', 'replica', { Bridge: [{ columns: ['name', 'ports'] }] }, noTransaction]);
    expect(connected.tables.Bridge.get(row)).toEqual({ _uuid: row, name: 'br', ports: new Set(), datapath_version: '' });
  });

  it.each([
    [['monitor_cond_since'], 'monitor_cond', { initial: { name: 'br' } }],
    [['monitor_cond_since', 'monitor_cond'], 'monitor', { new: { name: 'br' } }],
  ])('falls back when the server does not know %j', async (unknown, method, first) => {
    answer = (request) => {
      if (unknown.includes(request.method)) return { error: 'unknown method' };
      return request.method === method ? { result: { Bridge: { [row]: first } } } : ordinary(request);
    };
    const connected = client();
    await connected.synced(stop.signal);
    expect(methods()).toEqual(['get_schema', ...unknown, method]);
    expect(connected.tables.Bridge.find('name', 'br')?._uuid).toBe(row);
  });

  it('drops a server without any method to monitor, and retries', async () => {
    answer = (request) => (request.method === 'get_schema' ? { result: schema } : { error: 'unknown method' });
    client();
    await until(() => failures.length >= 2);
    expect(failures[0]).toMatchObject({ code: 'REFUSED', context: { error: 'unknown method' } });
  });

  it('lets a server with a history send only missed changes', async () => {
    const other = parseUuid('bbbbbbbb-0000-0000-0000-000000000000');
    answer = (request) => {
      if (request.method !== 'monitor_cond_since') return ordinary(request);
      const known = request.params[3] === someTransaction;
      return {
        result: [
          known,
          someTransaction,
          { Bridge: known ? { [other]: { insert: { name: 'b2' } } } : { [row]: { initial: { name: 'br' } } } },
        ],
      };
    };
    const connected = client();
    await connected.synced(stop.signal);
    const reported: unknown[] = [];
    connected.onChange((changes) => reported.push(...changes.map(({ uuid }) => uuid)), stop.signal);
    sockets[0]?.destroy();
    await until(() => connected.counters.syncs === 2);
    expect(reported).toEqual([other]);
    expect(connected.tables.Bridge.size).toBe(2);
  });

  it('reads a server that sends one byte at a time', async () => {
    answer = (request) => {
      const given = ordinary(request);
      const bytes = Buffer.from(JSON.stringify({ id: request.id, error: null, ...(typeof given === 'object' ? given : {}) }));
      dribble(sockets[0], bytes);
      return 'silence';
    };
    const connected = client();
    await connected.synced(stop.signal);
    expect(connected.tables.Bridge.size).toBe(1);
  });

  it.each([
    'garbage',
    '{"id":99,"result":1,"error":null}',
    '{"id":null,"method":"update2","params":["replica",{"Bridge":7}]}',
    '{"id":null,"method":"update2","params":["other",{}]}',
  ])('drops a server that sends %s, and reconnects', async (raw) => {
    const connected = client();
    await connected.synced(stop.signal);
    sockets[0]?.write(raw);
    await until(() => connected.counters.syncs === 2);
    expect(failures).toMatchObject([{ code: 'PROTOCOL' }]);
    expect(connected.tables.Bridge.size).toBe(1);
  });

  it('copies everything again after an update that does not fit, also from a server with a history', async () => {
    answer = (request) =>
      request.method === 'monitor_cond_since'
        ? { result: [false, someTransaction, { Bridge: { [row]: { initial: { name: 'br' } } } }] }
        : ordinary(request);
    const connected = client();
    await connected.synced(stop.signal);
    sockets[0]?.write(
      JSON.stringify({ id: null, method: 'update3', params: ['replica', someTransaction, { Bridge: { [row]: { modify: { name: 1 } } } }] }),
    );
    await until(() => connected.counters.syncs === 2);
    expect(requests.filter(({ method }) => method === 'monitor_cond_since').map(({ params }) => params[3])).toEqual([
      noTransaction,
      noTransaction,
    ]);
  });

  it('restarts on the same connection when the server cancels the monitor', async () => {
    const connected = client();
    await connected.synced(stop.signal);
    sockets[0]?.write('{"id":null,"method":"monitor_canceled","params":["replica"]}');
    await until(() => connected.counters.syncs === 2);
    expect(sockets).toHaveLength(1);
    expect(methods()).toEqual(['get_schema', 'monitor_cond_since', 'get_schema', 'monitor_cond_since']);
  });

  it('reports an unknown outcome when the connection is cut after sending', async () => {
    answer = (request) => (request.method === 'transact' ? 'hang up' : ordinary(request));
    const transaction = client().transact((tx) => tx.insert('Bridge', { name: 'x' }), stop.signal);
    await expect(transaction).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    expect(methods().filter((method) => method === 'transact')).toHaveLength(1);
  });

  it('sends requests that were queued while there was no server', async () => {
    answer = (request) => (request.method === 'transact' ? { result: [{ uuid: ['uuid', row] }] } : ordinary(request));
    const connected = client();
    await connected.synced(stop.signal);
    sockets[0]?.destroy();
    await until(() => !connected.isSynced);
    let inserted: unknown;
    const committed = await connected.transact((tx) => (inserted = tx.insert('Bridge', { name: 'x' })), stop.signal);
    expect(inserted).toMatchObject({ table: 'Bridge' });
    expect(committed).toBeDefined();
    expect(connected.counters.syncs).toBe(2);
  });

  it('requests its locks before it sends queued requests, which may assert one of them', async () => {
    answer = (request) => (request.method === 'lock' ? { result: { locked: true } } : ordinary(request));
    const connected = client();
    connected.lock('l');
    await connected.synced(stop.signal);
    sockets[0]?.destroy();
    await until(() => !connected.isSynced);
    requests = [];
    await connected.transact((tx) => tx.comment('x'), stop.signal).catch(() => undefined); // the answer does not matter
    expect(methods().filter((method) => method === 'lock' || method === 'transact')).toEqual(['lock', 'transact']);
  });

  it('drops a server that answers echoes but no transaction', async () => {
    answer = (request) => (request.method === 'transact' ? 'silence' : ordinary(request));
    const transaction = client(20).transact((tx) => tx.comment('x'), stop.signal);
    await expect(transaction).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    expect(failures[0]?.message).toContain('no reply to a transaction within 20 ms');
  });

  it('sends a transaction that may block alone, and does not delay others behind it', async () => {
    answer = (request) => {
      if (request.method !== 'transact') return ordinary(request);
      return JSON.stringify(request.params).includes('"wait"') ? 'silence' : { result: [{}] };
    };
    const connected = client();
    const own = new AbortController();
    const blocked = connected.transact(
      (tx) => tx.wait('Bridge', { where: [], columns: ['name'], until: '!=', rows: [], timeoutMs: 1_000 }),
      own.signal,
    );
    await until(() => methods().includes('transact'));
    await connected.transact((tx) => tx.comment('x'), stop.signal);
    own.abort();
    await expect(blocked).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: true } });
    await until(() => methods().includes('cancel'));
    const asked = requests.find(({ params }) => JSON.stringify(params).includes('"wait"'));
    expect(requests.find(({ method }) => method === 'cancel')).toEqual({ method: 'cancel', params: [asked?.id], id: null });
  });

  it('tries one endpoint after the other', async () => {
    const connected = client(5_000, { endpoint: [`unix:${dir}/missing`, `unix:${dir}/missing2`, `unix:${dir}/s`] });
    await connected.synced(stop.signal);
    expect(failures.map(({ message }) => /missing2?$/.exec(message)?.[0])).toEqual(['missing', 'missing2']);
    expect(() => client(5_000, { endpoint: [] })).toThrow('[INVALID_INPUT]');
  });

  it('requests the configured rows, and others on request', async () => {
    const connected = client(5_000, { rows: { Bridge: [['name', '==', 'br']] } });
    await connected.synced(stop.signal);
    expect(requests[1]?.params[2]).toEqual({ Bridge: [{ columns: ['name', 'ports'], where: [['name', '==', 'br']] }] });
    await connected.filter('Bridge', 'none', stop.signal);
    expect(requests[2]).toMatchObject({ method: 'monitor_cond_change', params: ['replica', 'replica', { Bridge: [{ where: [false] }] }] });
  });

  it('keeps its filter when the server refuses another', async () => {
    answer = (request) => (request.method === 'monitor_cond_change' ? { error: 'no such column' } : ordinary(request));
    const connected = client();
    await connected.synced(stop.signal);
    await expect(connected.filter('Bridge', 'none', stop.signal)).rejects.toMatchObject({ code: 'REFUSED' });
    sockets[0]?.destroy();
    await until(() => connected.counters.syncs === 2);
    expect(requests.at(-1)?.params[2]).toEqual({ Bridge: [{ columns: ['name', 'ports'] }] });
  });

  it('does not take all rows from a server that cannot filter', async () => {
    answer = (request) => (request.method.startsWith('monitor_cond') ? { error: 'unknown method' } : ordinary(request));
    const connected = client(5_000, { rows: { Bridge: 'none' } });
    await until(() => failures.length > 0);
    expect(failures[0]).toMatchObject({ code: 'REFUSED' });
    expect(failures[0]?.message).toContain('cannot leave out rows');
    expect(connected.isSynced).toBe(false);
  });

  it('forwards updates of monitors that are not its own', async () => {
    const connected = client();
    await connected.synced(stop.signal);
    const reported: unknown[] = [];
    const own = new AbortController();
    connected.onNotification((one) => reported.push(one), own.signal);
    sockets[0]?.write('{"id":null,"method":"update","params":["mine",{"T":{}}]}');
    await until(() => reported.length > 0);
    expect(reported).toEqual([{ method: 'update', params: ['mine', { T: {} }] }]);
    own.abort();
    sockets[0]?.write('{"id":null,"method":"update","params":["mine",{}]}');
    await until(() => failures.length > 0);
    expect(failures).toMatchObject([{ code: 'PROTOCOL' }]);
  });

  it('steals a lock once, and then waits in line', async () => {
    answer = (request) => (request.method === 'steal' ? { result: { locked: true } } : ordinary(request));
    const connected = client();
    const lock = connected.lock('l', 'steal');
    await lock.whenHeld(stop.signal);
    sockets[0]?.destroy();
    await until(() => methods().includes('lock'));
    expect(methods().filter((method) => method === 'steal' || method === 'lock')).toEqual(['steal', 'lock']);
  });

  it('keeps its locks when the copy is restarted', async () => {
    answer = (request) => (request.method === 'lock' ? { result: { locked: true } } : ordinary(request));
    const connected = client();
    const lock = connected.lock('l');
    await lock.whenHeld(stop.signal);
    sockets[0]?.write('{"id":null,"method":"monitor_canceled","params":["replica"]}');
    await until(() => connected.counters.syncs === 2);
    await connected.call('echo', [], stop.signal);
    expect(methods().filter((method) => method === 'lock')).toHaveLength(1);
    expect(lock.held).toBe(true);
  });

  it('has a time to keep', async () => {
    const connected = client();
    await connected.synced(stop.signal);
    const before = connected.snapshot();
    sockets[0]?.write(JSON.stringify({ id: null, method: 'update2', params: ['replica', { Bridge: { [row]: { delete: null } } }] }));
    await until(() => connected.tables.Bridge.size === 0);
    expect(before.Bridge.get(row)?.name).toBe('br');
    expect(connected.snapshot().Bridge.size).toBe(0);
  });

  it('ends with its signal', async () => {
    const connected = client();
    await connected.synced(stop.signal);
    const open = connected.synced(AbortSignal.abort());
    await expect(open).rejects.toMatchObject({ code: 'CANCELLED' });
    stop.abort();
    await until(() => !connected.isSynced);
    await until(() => sockets.every((socket) => socket.destroyed));
  });
});

function dribble(socket: Socket | undefined, bytes: Uint8Array): void {
  if (bytes.length === 0 || socket === undefined) return;
  socket.write(bytes.subarray(0, 1), () => setImmediate(() => dribble(socket, bytes.subarray(1))));
}
