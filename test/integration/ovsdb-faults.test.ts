import { afterEach, beforeEach, expect, it } from 'vitest';
import { localPolicy } from '../../src/base/async/reconnect.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';
import { type ProxyMode, RecordingProxy } from './stream-proxy.ts';

let server: TestOvsdbServer;
let proxy: RecordingProxy;
let stop: AbortController;

beforeEach(async () => {
  stop = new AbortController();
  server = new TestOvsdbServer();
  await server.start();
  server.vsctl('init', '--', 'add-br', 'br0');
  proxy = await RecordingProxy.start(server.socketPath);
});

afterEach(async () => {
  stop.abort();
  await proxy.close();
  await server.remove();
});

function connect(path: string) {
  const client = new OvsdbClient({
    database: openVswitch,
    endpoint: `unix:${path}`,
    monitor: { Bridge: ['name', 'ports'], Port: ['name', 'tag', 'external_ids'], Interface: ['name', 'options'] },
    reconnect: { ...localPolicy, minBackoffMs: 2, maxBackoffMs: 20 },
  });
  void client.run(stop.signal);
  return client;
}

type Client = ReturnType<typeof connect>;

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 2));
}

/** A copy rebuilt from its reported changes: it must equal the copy. */
function replayed(client: Client): Map<string, unknown> {
  const rows = new Map<string, unknown>();
  client.onChange((changes) => {
    for (const { uuid, before, after } of changes) {
      expect(rows.get(uuid)).toBe(before);
      if (after === undefined) rows.delete(uuid);
      else rows.set(uuid, after);
    }
  }, stop.signal);
  return rows;
}

function holdings(client: Client): Map<string, unknown> {
  const { Bridge, Port, Interface } = client.snapshot();
  return new Map<string, unknown>([...Bridge, ...Port, ...Interface]);
}

/** Adds, changes and removes ports this number of times; abandons requests that a dying server has not answered. */
async function churn(writer: Client, from: number, times: number): Promise<void> {
  for (let turn = from; turn < from + times; turn += 1) {
    const old = writer.tables.Port.find('name', `p${turn - 5}`);
    const work = writer.transact(
      (tx) => {
        const name = `p${turn}`;
        const options = [['k', 'v'.repeat(turn * 10)]] as const;
        const port = tx.insert('Port', { name, tag: turn, interfaces: [tx.insert('Interface', { name, options })] });
        tx.mutate('Bridge', [['name', '==', 'br0']], ['ports', 'insert', [port]]);
        if (old !== undefined) tx.mutate('Bridge', [], ['ports', 'delete', [old._uuid]]);
        tx.update('Port', [['name', '==', `p${turn - 1}`]], { external_ids: [['turn', String(turn)]] });
      },
      AbortSignal.any([stop.signal, AbortSignal.timeout(5_000)]),
    );
    await work.catch(() => undefined); // killed meanwhile: the copy shows the result
  }
}

/** Waits for the written rows, and compares with a copy made now. */
async function expectEqual(client: Client, writer: Client, marker: number): Promise<void> {
  await writer.transact((tx) => tx.update('Port', [['name', '==', 'br0']], { external_ids: [['marker', String(marker)]] }), stop.signal);
  await until(() => client.tables.Port.find('name', 'br0')?.external_ids.get('marker') === String(marker));
  const fresh = connect(server.socketPath);
  await fresh.synced(stop.signal);
  expect(holdings(client)).toEqual(holdings(fresh));
}

it.each<ProxyMode>(['whole', 'byte by byte', 'slowly'])('is followed while the server answers %s', async (mode) => {
  proxy.deliver(mode);
  const client = connect(proxy.path);
  const reported = replayed(client);
  const writer = connect(server.socketPath);
  await churn(writer, 1, 12);
  await expectEqual(client, writer, 1);
  expect(reported).toEqual(holdings(client));
  expect(client.counters.syncs).toBe(1);
});

it('is followed while the server is killed, restarted and compacted, and connections are cut', async () => {
  const client = connect(proxy.path);
  const reported = replayed(client);
  const writer = connect(server.socketPath);
  await writer.synced(stop.signal);
  for (let round = 0; round < 5; round += 1) {
    const writing = churn(writer, round * 8 + 1, 8);
    server.ctl('ovsdb-server/compact');
    if (round % 2 === 0) {
      await server.kill();
      await server.start();
    } else proxy.cut();
    await writing;
    await expectEqual(client, writer, round);
    expect(reported).toEqual(holdings(client));
  }
  expect(client.counters.syncs).toBeGreaterThan(4);
});

it('is complete again after data of the server was lost with the connection', async () => {
  const client = connect(proxy.path);
  const reported = replayed(client);
  const writer = connect(server.socketPath);
  await client.synced(stop.signal);
  proxy.swallow();
  await churn(writer, 1, 4);
  proxy.cut();
  proxy.deliver('whole');
  await expectEqual(client, writer, 9);
  expect(reported).toEqual(holdings(client));
});

it('follows a database that is removed and restored', async () => {
  const client = connect(server.socketPath);
  await client.synced(stop.signal);
  server.ctl('ovsdb-server/remove-db', 'Open_vSwitch');
  await until(() => !client.isSynced);
  expect(client.tables.Bridge.find('name', 'br0')).toBeDefined();
  server.ctl('ovsdb-server/add-db', `${server.dir}/conf.db`);
  await client.synced(stop.signal);
  expect(client.tables.Bridge.find('name', 'br0')).toBeDefined();
});
