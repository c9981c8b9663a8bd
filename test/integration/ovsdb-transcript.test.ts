import { readFileSync } from 'node:fs';
import { connect as connectRaw, type Socket } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import type { Json } from '../../src/ovsdb/json.ts';
import { isObject } from '../../src/ovsdb/json-rpc.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import { switchSchema } from '../support/open-vswitch.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';

interface Line {
  readonly case: string;
  readonly sent: string | { readonly method: string; readonly params: readonly Json[]; readonly id: Json };
  readonly received: readonly unknown[];
}

const transcript: readonly Line[] = readFileSync(new URL('../fixtures/ovsdb-transcript.jsonl', import.meta.url), 'utf8')
  .split('\n')
  .filter((line) => line !== '')
  .map((line) => JSON.parse(line));

/** Requests of lines whose recording is in another form, by the name and the answer of a line. */
const unrecorded: Readonly<Record<string, readonly { readonly method: string; readonly params: Json }[]>> = {
  'transact: mutate delete map kv mismatch': [
    mutation('insert', [
      ['a', '1'],
      ['c', '3'],
    ]),
  ],
  'monitor_cancel twice': [
    { method: 'monitor', params: ['Open_vSwitch', 'm', { Bridge: [{ columns: ['name'] }] }] },
    { method: 'monitor_cancel', params: ['m'] },
    { method: 'monitor_cancel', params: ['m'] },
  ],
  'monitor_cond initial (update2)': [
    { method: 'monitor_cond', params: ['Open_vSwitch', 'mc', { Bridge: [{ columns: ['name', 'external_ids'] }] }] },
  ],
  monitor_cond_change: [{ method: 'monitor_cond_change', params: ['mc', 'mc2', { Bridge: [{ where: [['name', '==', 'none']] }] }] }],
  'update3 delta': [
    { method: 'monitor_cond_since', params: ['Open_vSwitch', 'ms', { Bridge: [{ columns: ['external_ids'] }] }, zeros()] },
    {
      method: 'transact',
      params: [
        'Open_vSwitch',
        { op: 'mutate', table: 'Bridge', where: [], mutations: [['external_ids', 'insert', ['map', [['o', '9']]]]] },
      ],
    },
  ],
};

let server: TestOvsdbServer;
let stop: AbortController;
let first: OvsdbClient<typeof openVswitch, Record<never, never>>;
let second: typeof first;
let third: typeof first;
let reported: { method: string; params: readonly unknown[]; id: null }[];

beforeAll(async () => {
  server = new TestOvsdbServer();
  stop = new AbortController();
  reported = [];
  await server.start();
  server.vsctl('init');
  [first, second, third] = [connect(), connect(), connect()];
  first.onNotification((one) => reported.push({ ...one, id: null }), stop.signal);
  await Promise.all([first, second, third].map((client) => client.synced(stop.signal)));
});

afterAll(async () => {
  stop.abort();
  await server.remove();
});

function mutation(mutator: string, pairs: readonly (readonly [string, string])[]) {
  const operation = { op: 'mutate', table: 'Bridge', where: [], mutations: [['external_ids', mutator, ['map', pairs]]] };
  return { method: 'transact', params: ['Open_vSwitch', operation] };
}

function zeros(): string {
  return '00000000-0000-0000-0000-000000000000';
}

function connect() {
  const client = new OvsdbClient({ database: openVswitch, endpoint: `unix:${server.socketPath}`, monitor: {} });
  void client.run(stop.signal);
  return client;
}

/** An answer in the form of the transcript. The server chooses row names. */
async function answerOf(client: typeof first, method: string, params: Json): Promise<unknown> {
  try {
    return { result: await client.call(method, params, stop.signal) };
  } catch (thrown) {
    if (thrown instanceof SeineError && thrown.code === 'REFUSED') return { error: thrown.context['error'] };
    throw thrown;
  }
}

function comparable(value: unknown): unknown {
  if (typeof value === 'string') return value.replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID');
  if (Array.isArray(value)) return value.map(comparable);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [String(comparable(key)), comparable(member)]));
}

/** Content of a reply, without the parts that depend on the client. */
function essence(reply: unknown): unknown {
  if (!isObject(reply)) return reply;
  const { result, error } = reply;
  return comparable(error === null || error === undefined ? { result: inOrder(result) } : { error });
}

/** Versions of Open vSwitch order the names of databases differently. */
function inOrder(result: unknown): unknown {
  return Array.isArray(result) && result.includes('_Server') ? result.toSorted() : result;
}

describe('our client gets the recorded answers of a server', () => {
  // In this order: later lines build on earlier ones.
  for (const line of transcript) {
    it(line.case, async () => await replay(line));
  }

  it('cancels a transaction that waits', async () => {
    const own = new AbortController();
    const wait = { columns: ['name'], until: '==', rows: [{ name: 'never' }], timeoutMs: 60_000 } as const;
    const waiting = first.transact((tx) => tx.wait('Bridge', { where: [], ...wait }), own.signal);
    // Only a transaction that the server already waits for can be cancelled.
    await first.call('echo', [], stop.signal);
    own.abort();
    await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED', context: { sent: true } });
    // The session is still usable, and a late reply has no effect.
    expect(await first.call('echo', ['x'], stop.signal)).toEqual(['x']);
    expect(first.counters.syncs).toBe(1);
  });

  it('steals a lock for us, and returns it', async () => {
    const [owner, thief] = [second.lock('S'), third];
    await owner.whenHeld(stop.signal);
    const stolen = thief.lock('S', 'steal');
    await stolen.whenHeld(stop.signal);
    await owner.whenLost(stop.signal);
    stolen.release();
    await owner.whenHeld(stop.signal);
    owner.release();
  });

  it('returns its databases and its schema in our terms', async () => {
    expect((await first.databases(stop.signal)).toSorted()).toEqual(['Open_vSwitch', '_Server']);
    const schema = await first.schema(stop.signal);
    const { version } = JSON.parse(readFileSync(switchSchema, 'utf8')) as { readonly version: string };
    expect(schema.version).toBe(version);
    expect(schema.tables.get('Port')?.columns.get('tag')).toMatchObject({ key: { kind: 'integer', from: 0, to: 4095 }, min: 0, max: 1 });
    const recorded: unknown = JSON.parse(readFileSync(new URL('../fixtures/ovsdb-server-schema.json', import.meta.url), 'utf8'));
    expect(await first.call('get_schema', ['_Server'], stop.signal)).toEqual(recorded);
  });
});

async function replay(line: Line): Promise<void> {
  if (line.case.startsWith('lock B') || line.case.startsWith('steal') || line.case.startsWith('B gets')) return await replayLocks(line);
  if (line.case.startsWith('jsonrpc:') || line.case === 'id object') return await replayRaw(line);
  const asked = [...(unrecorded[line.case] ?? []), ...(typeof line.sent === 'string' ? [] : [line.sent])];
  if (asked.length === 0) throw new Error(`the transcript has a line that no test replays: ${line.case}`);
  reported.length = 0;
  let answer: unknown;
  for (const { method, params } of asked) {
    const fixed = JSON.parse(JSON.stringify(params).replaceAll('a696e205-4390-4d8c-93b0-af1e19fc2c71', await bridge()));
    answer = await answerOf(first, method, fixed);
  }
  const expected = line.received.map((one) => (isObject(one) && 'method' in one ? comparable(one) : essence(one)));
  const notified = expected.filter((one) => isObject(one) && 'method' in one);
  expect(comparable(reported.filter(({ method }) => notified.length > 0 && method.startsWith('update')))).toEqual(notified);
  const replies = expected.filter((one) => !(isObject(one) && 'method' in one));
  if (replies.length > 0) expect(essence(answer)).toEqual(replies.at(-1));
}

async function bridge(): Promise<string> {
  const found = await first.call(
    'transact',
    ['Open_vSwitch', { op: 'select', table: 'Bridge', where: [], columns: ['_uuid'] }],
    stop.signal,
  );
  return /[0-9a-f-]{36}/.exec(JSON.stringify(found))?.[0] ?? zeros();
}

async function replayLocks(line: Line): Promise<void> {
  if (line.case.startsWith('lock B')) {
    expect(await answerOf(first, 'lock', ['L1'])).toEqual({ result: { locked: true } });
    expect(await answerOf(second, 'lock', ['L1'])).toEqual(essence(line.received[0]));
  } else if (line.case.startsWith('steal')) {
    expect(await answerOf(third, 'steal', ['L1'])).toEqual(essence(line.received[0]));
  } else {
    // A client that waits for a lock is not notified of a theft.
    let received = 0;
    const own = new AbortController();
    second.onNotification(() => (received += 1), own.signal);
    await second.call('echo', [], stop.signal);
    own.abort();
    expect(received).toBe(line.received.length);
  }
}

/** Bytes that our client never sends. */
async function replayRaw(line: Line): Promise<void> {
  const socket = connectRaw(server.socketPath);
  try {
    const received = new Promise<string>((resolve) => {
      socket.once('data', (chunk) => resolve(String(chunk)));
      socket.once('close', () => resolve('<<closed>>'));
    });
    // The recording is cut off before its endless repetition.
    const text = line.case.includes('deep') ? `{"method":"echo","params":${'['.repeat(1_200)}` : textOf(line.sent);
    socket.write(text);
    if (line.received.length === 0) {
      expect(await Promise.race([received, silence(socket)])).toBe('silence');
      return;
    }
    const [expected] = line.received;
    const said = await received;
    expect(typeof expected === 'string' ? said : JSON.parse(said)).toEqual(expected);
  } finally {
    socket.destroy();
  }
}

function textOf(sent: Line['sent']): string {
  return typeof sent === 'string' ? sent : JSON.stringify(sent);
}

/** Another connection gets its answer; so would this one, if there were any. */
async function silence(_socket: Socket): Promise<string> {
  await second.call('echo', [], stop.signal);
  await second.call('echo', [], stop.signal);
  return 'silence';
}
