import { describe, expect, it } from 'vitest';
import { layoutFields } from './registers.ts';

describe('layoutFields', () => {
  const reg = layoutFields({
    source: { reg: 0, bits: [0, 3], doc: 'Where the packet came from.', values: { tunnel: 1, gateway: 2, pod: 3 } },
    outPort: { reg: 1, bits: [0, 31], doc: 'Port to output to.' },
  });

  it('places a named value', () => expect(reg.source('gateway')).toEqual({ field: 'source', reg: 0, value: 2, mask: 0xf }));
  it('fills a whole register', () =>
    expect(reg.outPort(0xfffffffe)).toEqual({ field: 'outPort', reg: 1, value: 0xfffffffe, mask: 0xffffffff }));
  it('refuses a field that leaves its register', () =>
    expect(() => layoutFields({ operation: { reg: 0, bits: [25, 32], doc: '' } })).toThrow(/bits 25..32 are not in 0..31/));
  it('refuses an overlap that is not declared', () => {
    const specs = { a: { reg: 0, bits: [0, 4], doc: '' }, b: { reg: 0, bits: [4, 5], doc: '' } } as const;
    expect(() => layoutFields(specs)).toThrow(/b overlaps a/);
    expect(() => layoutFields({ ...specs, b: { ...specs.b, shares: ['a'] } })).not.toThrow();
  });
  it('refuses a value that does not fit', () => {
    expect(() => layoutFields({ a: { reg: 0, bits: [0, 0], doc: '', values: { two: 2 } } })).toThrow(/a.two: 2 needs more than 1 bits/);
    expect(() => reg.source(16)).toThrow(/source: no value 16/);
  });
});

it('does not compile a misspelt value', () => {
  // @ts-expect-error a misspelt value is a compile error, not a packet drop
  expect(() => layoutFields({ a: { reg: 0, bits: [0, 1], doc: '', values: { pod: 1 } } }).a('pdo')).toThrow(/no value pdo/);
});
