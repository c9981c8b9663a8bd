import { beforeEach, describe, expect, it } from 'vitest';
import { type AnyChange, Replica } from './replica.ts';
import { parseUuid } from './schema/atoms.ts';
import { openVswitch } from './schema/open-vswitch.ts';

const stop = new AbortController();
const a = parseUuid('aaaaaaaa-0000-0000-0000-000000000000');
const b = parseUuid('bbbbbbbb-0000-0000-0000-000000000000');

let replica: Replica;
let heard: string[];

/** A change as `table row: outcome`. */
function describeChange({ table, uuid, before, after }: AnyChange): string {
  if (before === undefined) return `${table} ${uuid.slice(0, 1)} came as ${String(after?.['name'])}`;
  return `${table} ${uuid.slice(0, 1)} ${after === undefined ? 'went' : 'changed'}`;
}

function table(name: string) {
  const found = replica.tables.get(name);
  if (found === undefined) throw new Error(`no table ${name}`);
  return found;
}

beforeEach(() => {
  replica = new Replica(openVswitch, { Bridge: ['name', 'ports', 'external_ids', 'fail_mode'], Interface: ['name', 'ofport'] });
  heard = [];
  replica.listen((changes) => heard.push(...changes.map(describeChange)), stop.signal);
});

const initial = {
  Bridge: {
    [a]: { initial: { name: 'br-a', external_ids: ['map', [['k', '1']]] } },
    [b]: { initial: { name: 'br-b', fail_mode: 'secure' } },
  },
};

describe('Replica', () => {
  it('fills in columns that the server omitted, because they have the default', () => {
    replica.replace(initial, 'update2');
    expect(table('Bridge').get(a)).toEqual({
      _uuid: a,
      name: 'br-a',
      ports: new Set(),
      external_ids: new Map([['k', '1']]),
      fail_mode: undefined,
    });
    expect(heard).toEqual(['Bridge a came as br-a', 'Bridge b came as br-b']);
  });

  it('applies differences of update2', () => {
    replica.replace(initial, 'update2');
    replica.apply(
      {
        Bridge: {
          [a]: {
            modify: {
              ports: ['uuid', b],
              external_ids: [
                'map',
                [
                  ['k', '1'],
                  ['l', '2'],
                ],
              ],
            },
          },
          [b]: { delete: null },
        },
      },
      'update2',
    );
    expect(table('Bridge').get(a)).toEqual({
      _uuid: a,
      name: 'br-a',
      ports: new Set([b]),
      external_ids: new Map([['l', '2']]),
      fail_mode: undefined,
    });
    expect(heard.slice(2)).toEqual(['Bridge a changed', 'Bridge b went']);
  });

  it('applies updates of RFC 7047, which carry whole rows', () => {
    replica.replace({ Interface: { [a]: { new: { name: 'p', ofport: ['set', []] } } } }, 'update');
    replica.apply({ Interface: { [a]: { old: { ofport: ['set', []] }, new: { name: 'p', ofport: 7 } } } }, 'update');
    expect(table('Interface').get(a)).toEqual({ _uuid: a, name: 'p', ofport: 7 });
    replica.apply({ Interface: { [a]: { old: { name: 'p', ofport: 7 } } } }, 'update');
    expect(heard).toEqual(['Interface a came as p', 'Interface a changed', 'Interface a went']);
  });

  it('reports exactly the differences when the whole copy is replaced', () => {
    replica.replace(initial, 'update2');
    const kept = table('Bridge').get(b);
    heard = [];
    const recreated = { initial: { name: 'br-a', external_ids: ['map', [['k', '2']]] } };
    replica.replace({ Bridge: { [a]: recreated, [b]: initial.Bridge[b] }, Interface: { [a]: { initial: { name: 'p' } } } }, 'update2');
    expect(heard).toEqual(['Bridge a changed', 'Interface a came as p']);
    expect(table('Bridge').get(b)).toBe(kept);
    heard = [];
    replica.replace({}, 'update2');
    expect(heard).toEqual(['Bridge a went', 'Bridge b went', 'Interface a went']);
  });

  it('shows the complete new state while it reports changes', () => {
    const seen: unknown[] = [];
    replica.listen(() => seen.push([table('Bridge').size, table('Interface').find('name', 'p')?.['ofport']]), stop.signal);
    replica.replace({ ...initial, Interface: { [a]: { initial: { name: 'p', ofport: 7 } } } }, 'update2');
    expect(seen).toEqual([[2, 7]]);
  });

  it('finds rows by unique columns, also when a name moves to another row', () => {
    replica.replace(initial, 'update2');
    replica.apply({ Bridge: { [b]: { insert: { name: 'br-a' } }, [a]: { delete: null } } }, 'update2');
    expect(table('Bridge').find('name', 'br-a')?._uuid).toBe(b);
    expect(table('Bridge').find('name', 'br-b')).toBeUndefined();
    expect(() => table('Bridge').find('fail_mode', 'secure')).toThrow('[INVARIANT]');
  });

  it.each([
    ['a row that is not there', { Bridge: { [a]: { insert: { name: 'x' } }, [b]: { modify: { name: 'y' } } } }],
    ['a table that is not monitored', { Bridge: { [a]: { insert: { name: 'x' } } }, Port: {} }],
    ['a row without a UUID', { Bridge: { [a]: { insert: { name: 'x' } }, hello: { delete: null } } }],
    ['a value of another type', { Bridge: { [a]: { insert: { name: 'x' } }, [b]: { insert: { name: 1 } } } }],
    ['no rows', { Bridge: { [a]: { insert: { name: 'x' } } }, Interface: [] }],
    ['nothing', null],
  ])('changes nothing at an update with %s', (_what, update) => {
    expect(() => replica.apply(update, 'update2')).toThrow('[PROTOCOL]');
    expect(table('Bridge').size).toBe(0);
    expect(heard).toEqual([]);
  });

  it('hands out rows that cannot be changed', () => {
    replica.replace(initial, 'update2');
    expect(Object.isFrozen(table('Bridge').get(a))).toBe(true);
  });

  it('reports no update that changes nothing', () => {
    replica.replace(initial, 'update2');
    heard = [];
    replica.apply({ Bridge: { [a]: { modify: {} }, [b]: { insert: { name: 'br-b', fail_mode: 'secure' } } } }, 'update2');
    expect(heard).toEqual([]);
  });

  it('wakes callers that wait for a row', async () => {
    const ofport = table('Interface').when(a, (row) => row?.['ofport'], stop.signal);
    replica.replace({ Interface: { [a]: { initial: { name: 'p' } } } }, 'update2');
    replica.apply({ Interface: { [a]: { modify: { ofport: 12 } } } }, 'update2');
    expect(await ofport).toBe(12);
  });

  it('stops calling a listener, and waiting, on the signal', async () => {
    const own = new AbortController();
    let calls = 0;
    replica.listen(() => (calls += 1), own.signal);
    const row = table('Bridge').when(a, (found) => found, own.signal);
    own.abort();
    await expect(row).rejects.toMatchObject({ code: 'CANCELLED' });
    replica.replace(initial, 'update2');
    expect(calls).toBe(0);
  });
});
