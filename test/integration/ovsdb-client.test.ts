import { readFileSync } from 'node:fs';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localPolicy } from '../../src/base/async/reconnect.ts';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import type { FoundRows, Transaction } from '../../src/ovsdb/transaction.ts';
import { switchSchema } from '../support/open-vswitch.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';

let server: TestOvsdbServer;
let stop: AbortController;

const monitor = {
  Open_vSwitch: ['bridges', 'next_cfg', 'other_config'],
  Bridge: ['name', 'ports', 'external_ids', 'fail_mode', 'flow_tables'],
  Port: ['name', 'interfaces', 'external_ids', 'tag', 'trunks', 'statistics'],
  Interface: ['name', 'ofport', 'ofport_request', 'external_ids', 'statistics'],
} as const;

function connect(endpoint = `unix:${server.socketPath}`) {
  const client = new OvsdbClient({ database: openVswitch, endpoint, monitor, reconnect: { ...localPolicy, maxBackoffMs: 50 } });
  void client.run(stop.signal);
  return client;
}

type Client = ReturnType<typeof connect>;

/** Content of the client, in a form in which two clients can be compared. */
function holdings(client: Client): unknown {
  const tables = [client.tables.Open_vSwitch, client.tables.Bridge, client.tables.Port, client.tables.Interface];
  return tables.map((table) => new Map([...table.rows()].map((row) => [row._uuid, row])));
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

async function addBridge(client: Client, name: string, ports: readonly string[] = []) {
  return client.transact((tx) => {
    const rows = ports.map((port) => tx.insert('Port', { name: port, interfaces: [tx.insert('Interface', { name: port })] }));
    const bridge = tx.insert('Bridge', { name, ports: rows });
    tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [bridge]]);
  }, stop.signal);
}

beforeEach(async () => {
  server = new TestOvsdbServer();
  stop = new AbortController();
  await server.start();
  server.vsctl('init');
});

afterEach(async () => {
  stop.abort();
  await server.remove();
});

describe('a replica', () => {
  it('has the rows that ovs-vsctl writes, and follows every kind of change', async () => {
    const client = connect();
    await client.synced(stop.signal);
    server.vsctl(
      'add-br',
      'br0',
      '--',
      'add-port',
      'br0',
      'p1',
      'tag=5',
      '--',
      'set',
      'Interface',
      'p1',
      'ofport_request=7',
      'external_ids:a=1',
      'external_ids:b=2',
    );
    await until(() => client.tables.Interface.find('name', 'p1') !== undefined);
    expect(client.tables.Port.find('name', 'p1')).toMatchObject({ tag: 5 });
    expect(client.tables.Interface.find('name', 'p1')).toMatchObject({
      ofport_request: 7,
      external_ids: new Map([
        ['a', '1'],
        ['b', '2'],
      ]),
    });
    server.vsctl(
      'set',
      'Interface',
      'p1',
      'external_ids:b=3',
      'external_ids:c=4',
      '--',
      'remove',
      'Interface',
      'p1',
      'external_ids',
      'a',
      '--',
      'clear',
      'Port',
      'p1',
      'tag',
      '--',
      'set',
      'Port',
      'p1',
      'trunks=1,2,3',
    );
    server.vsctl('remove', 'Port', 'p1', 'trunks', '2');
    await until(() => client.tables.Port.find('name', 'p1')?.trunks.size === 2);
    expect(client.tables.Port.find('name', 'p1')).toMatchObject({ tag: undefined, trunks: new Set([1, 3]) });
    expect(client.tables.Interface.find('name', 'p1')?.external_ids).toEqual(
      new Map([
        ['b', '3'],
        ['c', '4'],
      ]),
    );
    server.vsctl('del-port', 'p1');
    await until(() => client.tables.Port.find('name', 'p1') === undefined);
    expect(holdings(client)).toEqual(holdings(await another()));
  });

  it('has the row of a transaction when, or soon after, it is committed', async () => {
    const client = connect();
    const committed = await client.transact((tx) => tx.insert('Bridge', { name: 'gone' }), stop.signal);
    expect(committed).toBeDefined();
    let named = '';
    const added = await client.transact((tx) => {
      const bridge = tx.insert('Bridge', { name: 'br0' });
      tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [bridge]]);
      named = bridge.uuidName;
    }, stop.signal);
    expect(named).toMatch(/^row\d+$/);
    expect(added).toBeDefined();
    await until(() => client.tables.Bridge.find('name', 'br0') !== undefined);
    // Not a root table, and nothing refers to it.
    expect(client.tables.Bridge.find('name', 'gone')).toBeUndefined();
  });

  it('delivers exactly the differences after the server was killed, changed and restarted', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1', 'p2', 'p3']);
    await client.transact((tx) => tx.update('Port', [['name', '==', 'p3']], { tag: 9 }), stop.signal);
    await until(() => client.tables.Port.find('name', 'p3')?.tag === 9);
    const kept = client.tables.Port.find('name', 'p2');
    const reported: string[] = [];
    client.onChange((changes) => {
      for (const { table, before, after } of changes)
        reported.push(`${table} ${before === undefined ? 'came' : after === undefined ? 'went' : 'changed'}`);
    }, stop.signal);
    // Another socket, so that the client cannot follow while the database changes.
    await server.kill();
    await until(() => !client.isSynced);
    const { socketPath } = server;
    Object.assign(server, { socketPath: `${server.dir}/other.sock` });
    await server.start();
    server.vsctl('del-port', 'p1', '--', 'clear', 'Port', 'p3', 'tag', '--', 'add-port', 'br0', 'p4');
    await server.kill();
    Object.assign(server, { socketPath });
    expect(reported).toEqual([]);
    await server.start();
    await client.synced(stop.signal);
    expect(reported.toSorted()).toEqual(['Bridge changed', 'Interface came', 'Interface went', 'Port came', 'Port changed', 'Port went']);
    expect(client.tables.Port.find('name', 'p2')).toBe(kept);
    expect(holdings(client)).toEqual(holdings(await another()));
  });

  it('equals a fresh copy after each of many random transactions, some of which are refused', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1', 'p2']);
    const name = fc.constantFrom('p1', 'p2', 'p3', 'p4');
    const pairs = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c'), fc.constantFrom('1', '2', '3')), { maxLength: 3 });
    const step = fc.oneof(
      fc.record({ kind: fc.constant('add' as const), name }),
      fc.record({ kind: fc.constant('remove' as const), name }),
      fc.record({ kind: fc.constant('ids' as const), name, pairs }),
      fc.record({ kind: fc.constant('trunks' as const), name, trunks: fc.uniqueArray(fc.integer({ min: 0, max: 5 })) }),
      fc.record({ kind: fc.constant('tag' as const), name, tag: fc.option(fc.integer({ min: 0, max: 4095 }), { nil: undefined }) }),
    );
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 6 }), async (steps) => {
        await client.transact((tx) => steps.forEach((one) => void apply(client, tx, one)), stop.signal).catch(onlyRefused);
        // The server sends the changes of a transaction before it answers the next request.
        await client.call('echo', [], stop.signal);
        expect(holdings(client)).toEqual(await selected(client));
      }),
      { numRuns: 200 },
    );
  });

  it('has the rows that meet one of the conditions, and others as soon as the conditions change', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1', 'p2', 'p3']);
    const names = () => Array.from(client.tables.Port.rows(), ({ name }) => name).toSorted();
    await client.filter(
      'Port',
      [
        ['name', '==', 'p1'],
        ['tag', '==', 7],
      ],
      stop.signal,
    );
    expect(names()).toEqual(['p1']);
    await client.transact((tx) => tx.update('Port', [['name', '==', 'p2']], { tag: 7 }), stop.signal);
    expect(names()).toEqual(['p1', 'p2']);
    server.vsctl('clear', 'Port', 'p2', 'tag');
    await until(() => client.tables.Port.size === 1);
    await client.filter('Port', 'none', stop.signal);
    expect(names()).toEqual([]);
    await client.filter('Port', 'all', stop.signal);
    expect(names()).toEqual(['p1', 'p2', 'p3']);
    expect(client.counters.syncs).toBe(1);
  });

  it('rejects a transaction on a row that has changed', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1']);
    const seen = client.tables.Port.find('name', 'p1');
    if (seen === undefined) throw new Error('p1 is missing');
    const settle = (tag: number) =>
      client.transact((tx) => {
        tx.unchanged('Port', seen, ['tag', 'external_ids']);
        tx.update('Port', seen._uuid, { tag });
      }, stop.signal);
    await settle(1);
    await expect(settle(2)).rejects.toMatchObject({ code: 'REFUSED', context: { error: 'timed out' } });
    expect(client.tables.Port.find('name', 'p1')?.tag).toBe(1);
  });

  it('survives the compaction of the database', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1']);
    server.ctl('ovsdb-server/compact');
    await client.transact((tx) => tx.update('Port', [['name', '==', 'p1']], { tag: 1 }), stop.signal);
    await until(() => client.tables.Port.find('name', 'p1')?.tag === 1);
    expect(client.counters.syncs).toBe(1);
  });

  it('reconnects when the schema of the database is converted', async () => {
    const client = connect();
    await addBridge(client, 'br0', ['p1']);
    const schema = JSON.parse(readFileSync(switchSchema, 'utf8'));
    await client.call('convert', ['Open_vSwitch', schema], stop.signal);
    await until(() => client.counters.syncs === 2);
    await addBridge(client, 'br1');
    await until(() => client.tables.Bridge.find('name', 'br1') !== undefined);
  });

  it('carries values of 200 kB, any characters, and 64 bits', async () => {
    const client = connect();
    const large = '😀ä"\\\n\u0001'.repeat(25_000);
    const widest = 2n ** 63n - 1n;
    await client.transact((tx) => {
      tx.update('Open_vSwitch', [], { next_cfg: widest, other_config: [['large', large]] });
    }, stop.signal);
    await client.transact((tx) => tx.mutate('Open_vSwitch', [], ['next_cfg', '-=', 1n]), stop.signal);
    await until(() => [...client.tables.Open_vSwitch.rows()][0]?.next_cfg === widest - 1n);
    expect([...client.tables.Open_vSwitch.rows()][0]?.other_config.get('large')).toBe(large);
  });
});

type Step =
  | { readonly kind: 'add' | 'remove'; readonly name: string }
  | { readonly kind: 'ids'; readonly name: string; readonly pairs: readonly (readonly [string, string])[] }
  | { readonly kind: 'trunks'; readonly name: string; readonly trunks: readonly number[] }
  | { readonly kind: 'tag'; readonly name: string; readonly tag: number | undefined };

function apply(client: Client, tx: Transaction<typeof openVswitch>, step: Step): void {
  const port = client.tables.Port.find('name', step.name)?._uuid;
  switch (step.kind) {
    case 'add':
      tx.mutate(
        'Bridge',
        [],
        ['ports', 'insert', [tx.insert('Port', { name: step.name, interfaces: [tx.insert('Interface', { name: step.name })] })]],
      );
      return;
    case 'remove':
      tx.mutate('Bridge', [], ['ports', 'delete', port === undefined ? [] : [port]]);
      return;
    case 'ids':
      tx.update('Port', [['name', '==', step.name]], { external_ids: new Map(step.pairs) });
      return;
    case 'trunks':
      tx.update('Port', [['name', '==', step.name]], { trunks: step.trunks });
      return;
    case 'tag':
      tx.update('Port', [['name', '==', step.name]], { tag: step.tag });
  }
}

function onlyRefused(thrown: unknown): void {
  if (!(thrown instanceof SeineError && thrown.code === 'REFUSED')) throw thrown;
}

/** Content of the server, by another method than monitoring, in the form of `holdings`. */
async function selected(client: Client): Promise<unknown> {
  const found: FoundRows<{ readonly _uuid: string }>[] = [];
  const committed = await client.transact((tx) => {
    found.push(tx.select('Open_vSwitch', [], monitor.Open_vSwitch), tx.select('Bridge', [], monitor.Bridge));
    found.push(tx.select('Port', [], monitor.Port), tx.select('Interface', [], monitor.Interface));
  }, stop.signal);
  return found.map((rows) => new Map(committed.rows(rows).map((row) => [row._uuid, row])));
}

/** A second client, with a fresh copy. */
async function another(): Promise<Client> {
  const client = connect();
  await client.synced(stop.signal);
  return client;
}
