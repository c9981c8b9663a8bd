import { describe, expect, it } from 'vitest';
import { integer, smallInteger, string } from './atoms.ts';
import { map, optional, scalar, set } from './columns.ts';
import { databaseOf } from './database-of.ts';
import { parseSchema } from './database-schema.ts';
import { among, atLeast, atMost, between, ofLength, oneOf } from './limits.ts';

describe('constraints', () => {
  it.each([
    [() => scalar(between(smallInteger, 1, 3)).encode(4), '4 is not within 1 to 3'],
    [() => scalar(atLeast(integer, 0n)).encode(-1n), '-1 is less than 0'],
    [() => scalar(atMost(integer, 5n)).encode(6n), '6 is more than 5'],
    [() => optional(among(integer, 1n, 2n)).encode(3n), '"3" is none of 1, 2'],
    [() => set(ofLength(string, 1, 2)).encode(['a', '😀😀😀']), 'a string of 3 characters, not of 1 to 2'],
    [() => set(string, { min: 1, max: 2 }).encode([]), '0 values in a column for 1 to 2'],
    [() => map(string, between(smallInteger, 0, 9)).encode([['a', 10]]), '10 is not within 0 to 9'],
    [() => map(string, string, { min: 0, max: 1 }).encode(Object.entries({ a: '', b: '' })), '2 values in a column for 0 to 1'],
  ])('apply to written values, %#', (write, complaint) => {
    expect(write).toThrow(`[INVALID_INPUT] ${complaint}`);
  });

  it('accept values within, also from an iterator that can be walked once', () => {
    expect(set(ofLength(string, 1, 2)).encode(['a', '😀😀'].values())).toEqual(['set', ['a', '😀😀']]);
    expect(scalar(oneOf('a', 'b')).encode('b')).toBe('b');
  });

  it('do not apply to values that are read, compared with, or added', () => {
    const tag = optional(between(smallInteger, 0, 4095));
    expect(tag.decode(5_000)).toBe(5_000);
    expect(tag.encodeTerm(5_000)).toEqual(['set', [5_000]]);
    expect(scalar(between(smallInteger, 14, 20)).encodeOperand(1)).toBe(1);
  });
});

describe('a schema', () => {
  const schema = (column: unknown, table: object = {}) => ({
    name: 'D',
    version: '1.0.0',
    tables: { T: { columns: { c: column }, ...table } },
  });

  it('has every default filled in', () => {
    expect(parseSchema(schema({ type: 'string' })).tables.get('T')).toEqual({
      columns: new Map([['c', { key: { kind: 'string' }, value: undefined, min: 1, max: 1, ephemeral: false, mutable: true }]]),
      isRoot: false,
      maxRows: Number.POSITIVE_INFINITY,
      indexes: [],
    });
    const weak = {
      type: { key: { type: 'uuid', refTable: 'T', refType: 'weak' }, min: 0, max: 'unlimited' },
      ephemeral: true,
      mutable: false,
    };
    expect(parseSchema(schema(weak, { maxRows: 5 })).tables.get('T')).toMatchObject({
      columns: new Map([
        [
          'c',
          {
            key: { kind: 'uuid', refTable: 'T', refType: 'weak' },
            value: undefined,
            min: 0,
            max: Number.POSITIVE_INFINITY,
            ephemeral: true,
            mutable: false,
          },
        ],
      ]),
      maxRows: 5,
    });
  });

  it.each([
    [7, 'schema is not an object'],
    [{ name: 'D', tables: [] }, 'tables is not an object'],
    [schema({}), 'T.c is not an object'],
    [schema({ type: 'float' }), 'T.c: "float" is not a type'],
    [schema({ type: { key: 'string', min: 2 } }), 'T.c min is neither 0 nor 1'],
    [schema({ type: { key: 'string', max: 0 } }), 'T.c max is not a number above 0'],
    [schema({ type: { key: { type: 'integer', minInteger: '1' } } }), 'T.c minInteger is not a number'],
    [schema({ type: { key: { type: 'string', enum: ['set', [{}]] } } }), 'T.c enum contains something else than values'],
    [schema({ type: 'string' }, { indexes: [['d']] }), 'T has an index over "d", which is not a column'],
    [schema({ type: 'string', mutable: 1 }), 'T.c mutable is neither true nor false'],
    [JSON.parse('{"name":"D","tables":{"__proto__":{"columns":{}}}}'), 'tables: "__proto__" is not a name'],
  ])('that is invalid is rejected with the place, %#', (json, complaint) => {
    expect(() => parseSchema(json)).toThrow(`[INVALID_INPUT] schema: ${complaint}`);
  });

  it('yields tables at run time, of every type', () => {
    const columns = {
      wide: { type: 'integer' },
      narrow: { type: { key: { type: 'integer', minInteger: 0, maxInteger: 9 }, min: 0 } },
      level: { type: { key: { type: 'real', minReal: 0.5 } } },
      kind: { type: { key: { type: 'string', enum: ['set', ['x', 'y']] } } },
      pairs: { type: { key: 'string', value: 'boolean', min: 0, max: 'unlimited' } },
      rows: { type: { key: { type: 'uuid', refTable: 'T' }, min: 0, max: 2 } },
    };
    const table = databaseOf(parseSchema({ name: 'D', version: '1.0.0', tables: { T: { columns, isRoot: true } } })).tables['T'];
    expect(table?.root).toBe(true);
    expect(table?.columns['wide']?.decode(5)).toBe(5n);
    expect(table?.columns['narrow']?.decode(5)).toBe(5);
    expect(() => table?.columns['level']?.encode(0.25)).toThrow('0.25 is less than 0.5');
    expect(() => table?.columns['kind']?.encode('z')).toThrow('is none of x, y');
    expect(table?.columns['pairs']?.decode(['map', [['a', true]]])).toEqual(new Map([['a', true]]));
    expect(table?.columns['rows']?.kind).toBe('set');
  });
});
