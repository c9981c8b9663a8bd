import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { OvsdbClient } from '../../src/ovsdb/client.ts';
import type { NewRow } from '../../src/ovsdb/schema/atoms.ts';
import { openVswitch } from '../../src/ovsdb/schema/open-vswitch.ts';
import type { AnyRow, TableView } from '../../src/ovsdb/table-replica.ts';
import type { Transaction } from '../../src/ovsdb/transaction.ts';
import { switchSchema } from '../support/open-vswitch.ts';
import { TestOvsdbServer } from './ovsdb-server.ts';

const monitor = {
  Open_vSwitch: ['bridges', 'next_cfg', 'external_ids', 'other_config'],
  Bridge: ['name', 'ports', 'external_ids', 'fail_mode', 'protocols', 'flow_tables', 'flood_vlans', 'datapath_type', 'mirrors'],
  Port: ['name', 'interfaces', 'tag', 'trunks', 'external_ids', 'qos', 'vlan_mode', 'statistics', 'bond_updelay'],
  Interface: ['name', 'type', 'options', 'ofport_request', 'external_ids', 'ingress_policing_rate', 'mac', 'link_speed'],
  QoS: ['type', 'queues', 'other_config'],
  Queue: ['dscp', 'other_config'],
  Flow_Table: ['name', 'flow_limit', 'prefixes', 'overflow_policy'],
  Mirror: ['name', 'select_all', 'select_src_port', 'output_vlan'],
} as const;

type Tx = Transaction<typeof openVswitch>;

let server: TestOvsdbServer;
let python: ChildProcessWithoutNullStreams;
let copies: AsyncIterator<string>;
let stop: AbortController;

beforeEach(async () => {
  server = new TestOvsdbServer();
  stop = new AbortController();
  await server.start();
  server.vsctl('init');
  const script = fileURLToPath(new URL('../fixtures/ovsdb-idl.py', import.meta.url));
  // Debian's own: its packages have python3-openvswitch.
  python = spawn('/usr/bin/python3', [script, `unix:${server.socketPath}`, switchSchema, JSON.stringify(monitor)]);
  python.stderr.pipe(process.stderr);
  copies = createInterface(python.stdout)[Symbol.asyncIterator]();
});

afterEach(async () => {
  stop.abort();
  python.kill();
  await server.remove();
});

/** Content of Python's client after the marker. */
async function pythonsCopy(marker: string): Promise<unknown> {
  python.stdin.write(`${marker}\n`);
  const { value, done } = await copies.next();
  if (done === true) throw new Error("Python's copy ended");
  return comparable(JSON.parse(value));
}

function connect() {
  const client = new OvsdbClient({ database: openVswitch, endpoint: `unix:${server.socketPath}`, monitor });
  void client.run(stop.signal);
  return client;
}

/** Our copy in wire form, which is what Python prints. */
function ourCopy(client: ReturnType<typeof connect>): unknown {
  const views: Readonly<Record<string, TableView<AnyRow>>> = client.tables;
  const tables = Object.entries(monitor).map(([table, columns]) => {
    const rows = Array.from(views[table]?.rows() ?? [], (row) => [row._uuid, rowJson(table, columns, row)]);
    return [table, Object.fromEntries(rows)];
  });
  return comparable(JSON.parse(JSON.stringify(Object.fromEntries(tables))));
}

function rowJson(table: string, columns: readonly string[], row: AnyRow): unknown {
  const description: Readonly<Record<string, { encodeTerm(value: unknown): unknown }>> = Object(openVswitch.tables)[table].columns;
  return Object.fromEntries(columns.map((name) => [name, description[name]?.encodeTerm(row[name])]));
}

/** Sets and maps in one order, and a set of one as its element. */
function comparable(value: unknown): unknown {
  if (Array.isArray(value)) {
    const [tag, elements] = value;
    if ((tag !== 'set' && tag !== 'map') || !Array.isArray(elements)) return value;
    const sorted = elements.map((element) => JSON.stringify(element)).toSorted();
    return tag === 'set' && sorted.length === 1 ? elements[0] : [tag, sorted];
  }
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, comparable(member)]));
}

const name = fc.constantFrom('n1', 'n2', 'n3', 'n4', 'n5');
const word = fc.constantFrom('', 'a', 'ä', '😀', '"', '\\', 'two words', '\u0001');
const pairs = fc.uniqueArray(fc.tuple(word, word), { maxLength: 4, selector: ([key]) => key });
const vlans = fc.uniqueArray(fc.integer({ min: 0, max: 4095 }), { maxLength: 5 });
const wide = fc.bigInt({ min: -(2n ** 62n), max: 2n ** 62n });

/** Each does one thing, to rows that may be absent. Some are rejected. */
const steps: fc.Arbitrary<(tx: Tx) => void> = fc.oneof(
  name.map((port) => (tx: Tx) => {
    tx.mutate('Bridge', [['name', '==', 'br']], ['ports', 'insert', [newPort(tx, port)]]);
  }),
  name.map((port) => (tx: Tx) => void tx.delete('Port', [['name', '==', port]])),
  fc.tuple(name, vlans).map(
    ([port, trunks]) =>
      (tx: Tx) =>
        void tx.update('Port', [['name', '==', port]], { trunks }),
  ),
  fc.tuple(name, vlans).map(
    ([port, trunks]) =>
      (tx: Tx) =>
        void tx.mutate('Port', [['name', '==', port]], ['trunks', 'insert', trunks]),
  ),
  fc.tuple(name, vlans).map(
    ([port, trunks]) =>
      (tx: Tx) =>
        void tx.mutate('Port', [['name', '!=', port]], ['trunks', 'delete', trunks]),
  ),
  fc.tuple(name, pairs).map(
    ([port, ids]) =>
      (tx: Tx) =>
        void tx.update('Port', [['name', '==', port]], { external_ids: ids }),
  ),
  fc.tuple(name, pairs).map(
    ([port, ids]) =>
      (tx: Tx) =>
        void tx.mutate('Interface', [], ['options', 'insert', ids], ['external_ids', 'delete', [[port, port]]]),
  ),
  fc.tuple(name, word).map(
    ([port, key]) =>
      (tx: Tx) =>
        void tx.mutate('Port', [['name', '==', port]], ['external_ids', 'delete keys', [key]]),
  ),
  fc.option(fc.integer({ min: 0, max: 4095 }), { nil: undefined }).map((tag) => (tx: Tx) => void tx.update('Port', [], { tag })),
  fc.tuple(name, fc.integer({ min: 1, max: 65_279 })).map(([port, ofport]) => (tx: Tx) => {
    tx.update('Interface', [['name', '==', port]], { ofport_request: ofport, mac: '00:00:00:00:00:01', link_speed: BigInt(ofport) ** 3n });
  }),
  wide.map((value) => (tx: Tx) => void tx.update('Open_vSwitch', [], { next_cfg: value })),
  wide.map((value) => (tx: Tx) => void tx.mutate('Open_vSwitch', [], ['next_cfg', '/=', value / 2n ** 55n])),
  fc.tuple(name, fc.integer({ min: 0, max: 63 })).map(([port, dscp]) => (tx: Tx) => {
    const queue = tx.insert('Queue', { dscp, other_config: [['k', String(dscp)]] });
    tx.update('Port', [['name', '==', port]], { qos: tx.insert('QoS', { type: 'linux-htb', queues: [[dscp, queue]] }) });
  }),
  fc.tuple(fc.integer({ min: 0, max: 254 }), word).map(([table, text]) => (tx: Tx) => {
    const row = tx.insert('Flow_Table', { name: text, flow_limit: 5n, prefixes: ['ip_src'], overflow_policy: 'evict' });
    tx.mutate('Bridge', [], ['flow_tables', 'insert', [[table, row]]], ['flow_tables', 'delete keys', [table + 1]]);
  }),
  fc.constantFrom('secure' as const, 'standalone' as const, undefined).map((mode) => (tx: Tx) => {
    tx.update('Bridge', [], { fail_mode: mode, protocols: mode === undefined ? [] : ['OpenFlow13', 'OpenFlow15'] });
  }),
  fc.tuple(name, fc.boolean()).map(([mirror, all]) => (tx: Tx) => {
    tx.mutate('Bridge', [], ['mirrors', 'insert', [tx.insert('Mirror', { name: mirror, select_all: all, output_vlan: 7 })]]);
  }),
  fc.constant((tx: Tx) => tx.abort()),
  fc.constant((tx: Tx) => void tx.insert('Bridge', { name: 'unreferenced' })),
);

function doAll(todo: readonly ((tx: Tx) => void)[], tx: Tx): void {
  for (const step of todo) step(tx);
}

function newPort(tx: Tx, port: string): NewRow<'Port'> {
  return tx.insert('Port', { name: port, interfaces: [tx.insert('Interface', { name: port })] });
}

it("equals Python's copy after each of many random transactions", async () => {
  const client = connect();
  await client.transact((tx) => tx.mutate('Open_vSwitch', [], ['bridges', 'insert', [tx.insert('Bridge', { name: 'br' })]]), stop.signal);
  let marker = 0;
  let refused = 0;
  await fc.assert(
    fc.asyncProperty(fc.array(steps, { minLength: 1, maxLength: 5 }), async (todo) => {
      await client
        .transact((tx) => doAll(todo, tx), stop.signal)
        .catch((thrown: unknown) => {
          if (!(thrown instanceof SeineError && thrown.code === 'REFUSED')) throw thrown;
          refused += 1;
        });
      marker += 1;
      await client.transact((tx) => tx.update('Open_vSwitch', [], { external_ids: [['marker', String(marker)]] }), stop.signal);
      expect(ourCopy(client)).toEqual(await pythonsCopy(String(marker)));
    }),
    { numRuns: 250 },
  );
  // Both kinds must have occurred, or the steps test nothing.
  expect(refused).toBeGreaterThan(10);
  expect(client.tables.Port.size + client.tables.Queue.size + client.tables.Flow_Table.size).toBeGreaterThan(5);
});
