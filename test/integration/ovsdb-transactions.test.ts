import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import { parseUuid } from '../../src/ovsdb/schema/atoms.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import type { Transaction } from '../../src/ovsdb/transaction.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';

type Tx = Transaction<typeof openVswitch>;

let server: TestOvsdbServer;
let stop: AbortController;
let client: ReturnType<typeof connect>;

function connect() {
  const connected = new OvsdbClient({
    database: openVswitch,
    endpoint: `unix:${server.socketPath}`,
    monitor: { Bridge: ['name', 'external_ids'] },
  });
  void connected.run(stop.signal);
  return connected;
}

beforeEach(async () => {
  server = new TestOvsdbServer();
  stop = new AbortController();
  await server.start();
  server.vsctl('init', '--', 'add-br', 'br0', '--', 'set', 'Bridge', 'br0', 'external_ids:a=1', 'external_ids:b=2');
  client = connect();
  await client.synced(stop.signal);
});

afterEach(async () => {
  stop.abort();
  await server.remove();
});

async function refusal(describe: (tx: Tx) => void): Promise<string> {
  const thrown: unknown = await client.transact(describe, stop.signal).then(
    () => 'committed',
    (error: unknown) => error,
  );
  return thrown instanceof Error && 'context' in thrown ? `${thrown.name} ${JSON.stringify(Object(thrown.context).error)}` : String(thrown);
}

async function select<R>(describe: (tx: Tx) => { readonly read: (json: unknown) => R }): Promise<R[]> {
  const found: { readonly read: (json: unknown) => R }[] = [];
  const committed = await client.transact((tx) => found.push(describe(tx)), stop.signal);
  return found.flatMap((stand) => committed.rows(stand));
}

describe('operations', () => {
  it('insert, select, update, mutate and delete report their results', async () => {
    const [counts, bridge] = await new Promise<readonly [number[], string]>((resolve, reject) => {
      const standIns: { bridge?: ReturnType<Tx['insert']>; counts: ReturnType<Tx['delete']>[] } = { counts: [] };
      client
        .transact((tx) => {
          const added = tx.insert('Bridge', { name: 'br1', external_ids: [['k', 'v']] });
          standIns.bridge = added;
          tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [added]]);
          standIns.counts.push(
            tx.update('Bridge', [['name', '!=', 'missing']], { fail_mode: 'secure' }),
            tx.mutate(
              'Bridge',
              added,
              [
                'external_ids',
                'insert',
                [
                  ['k', 'kept'],
                  ['l', 'w'],
                ],
              ],
              ['external_ids', 'delete keys', ['zzz']],
            ),
            tx.delete('Bridge', [['name', '==', 'missing']]),
          );
        }, stop.signal)
        .then((committed) => {
          if (standIns.bridge !== undefined)
            resolve([standIns.counts.map((count) => committed.count(count)), committed.uuid(standIns.bridge)]);
        }, reject);
    });
    expect(counts).toEqual([2, 1, 0]);
    const rows = await select((tx) => tx.select('Bridge', parseUuid(bridge), ['name', 'fail_mode', 'external_ids']));
    // Inserting into a map never overwrites.
    expect(rows).toEqual([
      {
        _uuid: bridge,
        name: 'br1',
        fail_mode: 'secure',
        external_ids: new Map([
          ['k', 'v'],
          ['l', 'w'],
        ]),
      },
    ]);
  });

  it('delete of a pair needs the value to match', async () => {
    await client.transact(
      (tx) =>
        tx.mutate(
          'Bridge',
          [],
          [
            'external_ids',
            'delete',
            [
              ['a', 'other'],
              ['b', '2'],
            ],
          ],
        ),
      stop.signal,
    );
    expect(await select((tx) => tx.select('Bridge', [], ['external_ids']))).toMatchObject([{ external_ids: new Map([['a', '1']]) }]);
  });

  it.each<[string, (tx: Tx) => void, string]>([
    ['an immutable column', (tx) => tx.update('Bridge', [], { name: 'x' }), 'constraint violation'],
    ['a value out of range', (tx) => tx.operations.push({ op: 'insert', table: 'Port', row: { tag: 5_000 } }), 'constraint violation'],
    ['a duplicate of a unique name, found at the commit', (tx) => addTwice(tx), 'constraint violation'],
    ['a reference to nothing, found at the commit', (tx) => dangle(tx), 'referential integrity violation'],
    ['a division by zero', (tx) => tx.mutate('Open_vSwitch', [], ['next_cfg', '/=', 0n]), 'domain error'],
    [
      'an unmet precondition',
      (tx) => tx.wait('Bridge', { where: [], columns: ['name'], until: '==', rows: [], timeoutMs: 0 }),
      'timed out',
    ],
    [
      'an unmet precondition after waiting',
      (tx) => tx.wait('Bridge', { where: [], columns: ['name'], until: '==', rows: [], timeoutMs: 20 }),
      'timed out',
    ],
    ['an abort', (tx) => tx.abort(), 'aborted'],
    ['a lock that is not held', (tx) => tx.assertLock('missing'), 'not owner'],
  ])('is refused for %s', async (_what, describe, error) => {
    expect(await refusal(describe)).toBe(`SeineError "${error}"`);
  });

  it('commits with a precondition that is true, durably, with a comment', async () => {
    const outcome = await refusal((tx) => {
      tx.wait('Bridge', {
        where: [['name', '==', 'br0']],
        columns: ['external_ids'],
        until: '==',
        rows: [
          {
            external_ids: [
              ['a', '1'],
              ['b', '2'],
            ],
          },
        ],
        timeoutMs: 0,
      });
      tx.comment('from a test');
      tx.durable();
    });
    expect(outcome).toBe('committed');
  });

  it('wakes a transaction that waits for another one', async () => {
    const waiting = client.transact(
      (tx) =>
        tx.wait('Bridge', { where: [['name', '==', 'br1']], columns: ['name'], until: '==', rows: [{ name: 'br1' }], timeoutMs: 10_000 }),
      stop.signal,
    );
    await client.transact(
      (tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'br1' })]]),
      stop.signal,
    );
    await waiting;
  });
});

describe('callers of one turn', () => {
  it('share a transaction but no failure', async () => {
    const before = client.counters;
    const add = (name: string) =>
      client.transact((tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name })]]), stop.signal);
    const outcomes = await Promise.allSettled([add('one'), add('br0'), add('two'), add('two'), add('three')]);
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled', 'rejected', 'fulfilled']);
    expect(client.counters).toMatchObject({
      transactions: before.transactions + 6,
      requests: before.requests + 5,
      split: before.split + 1,
    });
    const names = await select((tx) => tx.select('Bridge', [], ['name']));
    expect(names.map(({ name }) => name).toSorted()).toEqual(['br0', 'one', 'three', 'two']);
    await Promise.all([add('four'), add('five')]);
    expect(client.counters.transactions - before.transactions).toBe(8);
  });
});

describe('an outcome', () => {
  it('is unknown when the server dies, and one of two when read again', async () => {
    server.signal('SIGSTOP');
    const add = client.transact(
      (tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'maybe' })]]),
      stop.signal,
    );
    const outcome = expect(add).rejects.toMatchObject({ code: 'UNAVAILABLE', context: { sent: true } });
    while (client.counters.transactions < 1) await new Promise((resolve) => setImmediate(resolve));
    await server.kill();
    await outcome;
    await server.start();
    await client.synced(stop.signal);
    expect(client.tables.Bridge.find('name', 'maybe')).toBeUndefined();
  });
});

describe('a lock', () => {
  it('goes to the first request, then to the next; can be stolen; and returns with the connection', async () => {
    const second = connect();
    const [first, next] = [client.lock('L'), second.lock('L')];
    await first.whenHeld(stop.signal);
    await client.transact((tx) => tx.assertLock('L'), stop.signal);
    await second.synced(stop.signal);
    expect(next.held).toBe(false);
    await expect(second.transact((tx) => tx.assertLock('L'), stop.signal)).rejects.toMatchObject({ context: { error: 'not owner' } });

    const thief = connect();
    expect(await thief.call('steal', ['L'], stop.signal)).toEqual({ locked: true });
    await first.whenLost(stop.signal);
    await thief.call('unlock', ['L'], stop.signal);
    await next.whenHeld(stop.signal);
    next.release();
    await first.whenHeld(stop.signal);

    await server.kill();
    await first.whenLost(stop.signal);
    await server.start();
    await first.whenHeld(stop.signal);
    await client.transact((tx) => tx.assertLock('L'), stop.signal);
  });
});

describe('other methods', () => {
  it('answer like the server', async () => {
    expect(await client.databases(stop.signal).then((names) => names.toSorted())).toEqual(['Open_vSwitch', '_Server']);
    expect(await client.call('echo', ['x', { y: [1] }], stop.signal)).toEqual(['x', { y: [1] }]);
    expect(await client.call('get_server_id', [], stop.signal)).toMatch(/^[0-9a-f-]{36}$/);
    await expect(client.call('get_schema', ['Nowhere'], stop.signal)).rejects.toMatchObject({
      code: 'REFUSED',
      context: { error: 'unknown database' },
    });
  });
});

function addTwice(tx: Tx): void {
  tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'br0' })]]);
}

function dangle(tx: Tx): void {
  tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [parseUuid('12345678-1234-1234-1234-123456789012')]]);
}
