import { describe, expect, it } from 'vitest';
import { parseUuid } from './schema/atoms.ts';
import { openVswitch } from './schema/open-vswitch.ts';
import { Transaction } from './transaction.ts';

const bridge = parseUuid('a696e205-4390-4d8c-93b0-af1e19fc2c71');

function transaction(): Transaction<typeof openVswitch> {
  let names = 0;
  return new Transaction(openVswitch, () => `row${(names += 1)}`);
}

function sent(describe: (tx: Transaction<typeof openVswitch>) => void): unknown[] {
  const tx = transaction();
  describe(tx);
  return JSON.parse(JSON.stringify(tx.operations));
}

describe('Transaction', () => {
  it('can require that a row is unchanged', () => {
    const seen = { _uuid: bridge, name: 'br0', external_ids: new Map([['a', '1']]), fail_mode: undefined };
    expect(sent((tx) => tx.unchanged('Bridge', seen, ['external_ids', 'fail_mode']))).toEqual([
      {
        op: 'wait',
        table: 'Bridge',
        where: [['_uuid', '==', ['uuid', bridge]]],
        columns: ['external_ids', 'fail_mode'],
        until: '==',
        rows: [{ external_ids: ['map', [['a', '1']]], fail_mode: ['set', []] }],
        timeout: 0,
      },
    ]);
  });

  it('names the column that cannot have a value', () => {
    expect(() => sent((tx) => tx.insert('Port', { tag: 5_000 }))).toThrow('[INVALID_INPUT] Port.tag: 5000 is not within 0 to 4095');
    expect(() => sent((tx) => tx.update('Bridge', bridge, { name: 'a\0' }))).toThrow('[INVALID_INPUT] Bridge.name: a string');
  });

  it('refers to new rows by names', () => {
    const operations = sent((tx) => {
      const iface = tx.insert('Interface', { name: 'p', type: 'internal', ofport_request: 5, external_ids: new Map([['k', 'v']]) });
      const port = tx.insert('Port', { name: 'p', interfaces: [iface], tag: undefined });
      tx.mutate('Bridge', bridge, ['ports', 'insert', [port]]);
    });
    const iface = { name: 'p', type: 'internal', ofport_request: ['set', [5]], external_ids: ['map', [['k', 'v']]] };
    expect(operations).toEqual([
      { op: 'insert', table: 'Interface', 'uuid-name': 'row1', row: iface },
      {
        op: 'insert',
        table: 'Port',
        'uuid-name': 'row2',
        row: { name: 'p', interfaces: ['set', [['named-uuid', 'row1']]], tag: ['set', []] },
      },
      {
        op: 'mutate',
        table: 'Bridge',
        where: [['_uuid', '==', ['uuid', bridge]]],
        mutations: [['ports', 'insert', ['set', [['named-uuid', 'row2']]]]],
      },
    ]);
  });

  it('writes every operation of RFC 7047', () => {
    const operations = sent((tx) => {
      tx.update('Bridge', [['name', '==', 'br']], { fail_mode: 'secure' });
      tx.mutate(
        'Bridge',
        [],
        ['external_ids', 'delete keys', ['a']],
        ['external_ids', 'insert', [['a', 'b']]],
        ['external_ids', 'delete', [['c', 'd']]],
      );
      tx.mutate('Open_vSwitch', [], ['next_cfg', '+=', 2n ** 60n], ['bridges', 'delete', [bridge]]);
      tx.delete('Port', [['external_ids', 'includes', [['owner', 'us']]]]);
      tx.select('Bridge', [], ['name']);
      tx.wait('Bridge', { where: [], columns: ['name'], until: '==', rows: [{ name: 'br' }], timeoutMs: 0 });
      tx.comment('why');
      tx.assertLock('L');
      tx.durable();
      tx.abort();
    });
    expect(operations).toEqual([
      { op: 'update', table: 'Bridge', where: [['name', '==', 'br']], row: { fail_mode: ['set', ['secure']] } },
      {
        op: 'mutate',
        table: 'Bridge',
        where: [],
        mutations: [
          ['external_ids', 'delete', ['set', ['a']]],
          ['external_ids', 'insert', ['map', [['a', 'b']]]],
          ['external_ids', 'delete', ['map', [['c', 'd']]]],
        ],
      },
      {
        op: 'mutate',
        table: 'Open_vSwitch',
        where: [],
        mutations: [
          ['next_cfg', '+=', 2 ** 60],
          ['bridges', 'delete', ['set', [['uuid', bridge]]]],
        ],
      },
      { op: 'delete', table: 'Port', where: [['external_ids', 'includes', ['map', [['owner', 'us']]]]] },
      { op: 'select', table: 'Bridge', where: [], columns: ['_uuid', 'name'] },
      { op: 'wait', table: 'Bridge', where: [], columns: ['name'], until: '==', rows: [{ name: 'br' }], timeout: 0 },
      { op: 'comment', comment: 'why' },
      { op: 'assert', lock: 'L' },
      { op: 'commit', durable: true },
      { op: 'abort' },
    ]);
  });

  it("resolves its results from the server's answer", () => {
    const tx = transaction();
    const row = tx.insert('Bridge', { name: 'x' });
    const count = tx.delete('Port', []);
    const found = tx.select('Interface', [], ['ofport', 'statistics']);
    const committed = tx.committed([
      { uuid: ['uuid', bridge] },
      { count: 3 },
      { rows: [{ _uuid: ['uuid', bridge], ofport: 7, statistics: ['map', [['rx_bytes', 9_007_199_254_740_993n]]] }] },
    ]);
    expect(committed.uuid(row)).toBe(bridge);
    expect(committed.count(count)).toBe(3);
    expect(committed.rows(found)).toEqual([{ _uuid: bridge, ofport: 7, statistics: new Map([['rx_bytes', 9_007_199_254_740_993n]]) }]);
    expect(() => transaction().committed([]).uuid(row)).toThrow('[INVARIANT]');
    expect(() => tx.committed([{}, {}, {}]).uuid(row)).toThrow('[PROTOCOL]');
    expect(() => tx.committed([{}, {}, {}]).count(count)).toThrow('[PROTOCOL]');
    expect(() => tx.committed([{}, {}, {}]).rows(found)).toThrow('[PROTOCOL]');
  });

  it('reports whether it may block at the server', () => {
    const tx = transaction();
    tx.wait('Bridge', { where: [], columns: ['name'], until: '!=', rows: [], timeoutMs: 0 });
    expect(tx.blocks).toBe(false);
    tx.wait('Bridge', { where: [], columns: ['name'], until: '!=', rows: [], timeoutMs: 10 });
    expect(tx.blocks).toBe(true);
  });

  it('does not compile with names or types that the schema does not have', () => {
    const mistakes = (tx: Transaction<typeof openVswitch>) => {
      // @ts-expect-error no such table
      tx.insert('Brigde', {});
      // @ts-expect-error no such column
      tx.insert('Bridge', { nmae: 'x' });
      // @ts-expect-error not one of the enum
      tx.insert('Bridge', { fail_mode: 'open' });
      // @ts-expect-error a row of another table
      tx.mutate('Bridge', [], ['ports', 'insert', [tx.insert('Interface', {})]]);
      // @ts-expect-error an unbounded integer is a bigint
      tx.update('Open_vSwitch', [], { next_cfg: 1 });
      // @ts-expect-error arithmetic on a string
      tx.mutate('Bridge', [], ['name', '+=', 'x']);
      // @ts-expect-error keys are of maps
      tx.mutate('Bridge', [], ['ports', 'delete keys', []]);
    };
    expect(() => sent(mistakes)).toThrow('[INVALID_INPUT]');
  });
});
