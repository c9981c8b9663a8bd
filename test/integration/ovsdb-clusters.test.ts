import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { localPolicy } from '../../src/base/async/reconnect.ts';
import type { SeineError } from '../../src/base/errors/seine-error.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import type { LeaderRule } from '../../src/ovsdb/server-watch.ts';
import { type Membership, TestOvsdbServer } from './ovsdb-server.ts';
import { RecordingProxy } from './stream-proxy.ts';

let stop: AbortController;
let remove: (() => Promise<void>)[];
let failures: SeineError[];

beforeEach(() => {
  stop = new AbortController();
  remove = [];
  failures = [];
});

afterEach(async () => {
  stop.abort();
  for (const one of remove.toReversed()) await one();
});

async function member(membership: Membership): Promise<TestOvsdbServer> {
  const server = new TestOvsdbServer({ membership });
  remove.push(() => server.remove());
  await server.start();
  if (membership.kind === 'joins') await until(() => server.ctl('cluster/status', 'Open_vSwitch').includes('Status: cluster member'));
  return server;
}

async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, 5));
}

function connect(endpoint: string | readonly string[], leader: LeaderRule = 'required') {
  const client = new OvsdbClient({
    database: openVswitch,
    endpoint,
    leader,
    monitor: { Open_vSwitch: ['bridges'], Bridge: ['name', 'ports', 'external_ids'] },
    reconnect: { ...localPolicy, minBackoffMs: 5, maxBackoffMs: 50 },
    hooks: { failed: (cause) => failures.push(cause) },
  });
  void client.run(stop.signal);
  return client;
}

/** Reports whether the server knew the client's last transaction. */
function found(proxy: RecordingProxy): unknown[] {
  return proxy.repliesTo('monitor_cond_since', 'replica').map((answer) => (Array.isArray(answer) ? answer[0] : answer));
}

type Client = ReturnType<typeof connect>;

async function addBridges(client: Client, names: readonly string[]): Promise<void> {
  await client.transact((tx) => {
    const bridges = names.map((name) => tx.insert('Bridge', { name }));
    tx.mutate('Open_vSwitch', [], ['bridges', 'insert', bridges]);
  }, stop.signal);
}

async function ready(client: Client): Promise<void> {
  await client.transact((tx) => tx.insert('Open_vSwitch', {}), stop.signal);
}

describe('a cluster of one', () => {
  it('sends after a reconnect only the missed changes', async () => {
    const server = await member({ kind: 'first' });
    const proxy = await RecordingProxy.start(server.socketPath);
    remove.push(() => proxy.close());
    const client = connect(`unix:${proxy.path}`);
    const writer = connect(`unix:${server.socketPath}`);
    await ready(client);
    // A server keeps no more history than data: our last transaction must be a small part of it.
    await addBridges(
      client,
      Array.from({ length: 60 }, (_, index) => `br${index}`),
    );
    await addBridges(client, ['kept', 'goes', 'changes']);
    await until(() => client.tables.Bridge.size === 63);
    const kept = client.tables.Bridge.find('name', 'kept');
    const reported: string[] = [];
    client.onChange((changes) => {
      for (const { table, before, after } of changes)
        if (table === 'Bridge') reported.push(`${before?.name ?? ''}>${after?.name ?? ''} ${after?.external_ids.get('a') ?? ''}`.trim());
    }, stop.signal);

    proxy.refuse();
    await until(() => !client.isSynced);
    await addBridges(writer, ['comes']);
    await writer.transact((tx) => {
      tx.update('Bridge', [['name', '==', 'changes']], { external_ids: [['a', '1']] });
      const goes = writer.tables.Bridge.find('name', 'goes');
      tx.mutate('Open_vSwitch', [], ['bridges', 'delete', goes === undefined ? [] : [goes._uuid]]);
    }, stop.signal);
    proxy.clear();
    proxy.accept();
    await client.synced(stop.signal);

    expect(reported.toSorted()).toEqual(['>comes', 'changes>changes 1', 'goes>']);
    expect(client.tables.Bridge.find('name', 'kept')).toBe(kept);
    const [answer] = proxy.repliesTo('monitor_cond_since', 'replica');
    expect(answer).toMatchObject([true, expect.stringMatching(/^[0-9a-f-]{36}$/), {}]);
    expect(JSON.stringify(answer)).not.toContain('kept');
  });

  it('sends everything if other rows were requested meanwhile', async () => {
    const server = await member({ kind: 'first' });
    const proxy = await RecordingProxy.start(server.socketPath);
    remove.push(() => proxy.close());
    const client = connect(`unix:${proxy.path}`);
    await ready(client);
    await addBridges(client, ['a', 'b']);
    await client.filter('Bridge', [['name', '==', 'a']], stop.signal);
    expect(Array.from(client.tables.Bridge.rows(), ({ name }) => name)).toEqual(['a']);
    // Confirmed: the server may continue from there.
    proxy.refuse();
    await until(() => !client.isSynced);
    proxy.clear();
    proxy.accept();
    await client.synced(stop.signal);
    expect(found(proxy)).toEqual([true]);
    // Not confirmed: it is unknown which rows the server's last messages were about.
    proxy.swallow();
    const unsure = client.filter('Bridge', [['name', '==', 'b']], stop.signal);
    const outcome = expect(unsure).rejects.toMatchObject({ code: 'UNAVAILABLE' });
    proxy.refuse();
    await outcome;
    proxy.clear();
    proxy.accept();
    await client.synced(stop.signal);
    expect(found(proxy)).toEqual([false]);
    expect(Array.from(client.tables.Bridge.rows(), ({ name }) => name)).toEqual(['b']);
  });
});

describe('a cluster of three', () => {
  it('is used through its leader, and again when the leader is killed', async () => {
    const first = await member({ kind: 'first' });
    const members = [first, await member({ kind: 'joins', first }), await member({ kind: 'joins', first })];
    const leads = (server: TestOvsdbServer): boolean => server.ctl('cluster/status', 'Open_vSwitch').includes('Role: leader');
    const follower = members.find((server) => !leads(server)) ?? first;

    const stubborn = connect(`unix:${follower.socketPath}`);
    await until(() => failures.length > 0);
    expect(failures[0]?.message).toContain('is not the leader of Open_vSwitch');
    expect(stubborn.isSynced).toBe(false);
    const reader = connect(`unix:${follower.socketPath}`, 'not required');
    await reader.synced(stop.signal);

    const client = connect([follower, ...members.filter((server) => server !== follower)].map(({ socketPath }) => `unix:${socketPath}`));
    await ready(client);
    await addBridges(client, ['before']);
    await until(() => reader.tables.Bridge.size === 1);
    await members.find(leads)?.kill();
    await until(() => !client.isSynced);
    await client.synced(stop.signal);
    expect(client.tables.Bridge.find('name', 'before')).toBeDefined();
    await addBridges(client, ['after']);
    await until(() => reader.tables.Bridge.size === 2);
  });
});
