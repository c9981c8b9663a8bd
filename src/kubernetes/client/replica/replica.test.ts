import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Held, ReplicaStore } from './replica.ts';

type Change = { readonly key: string; readonly version: number; readonly value: number | undefined };

describe('ReplicaStore', () => {
  it('ends with the newest version of each object, despite duplicates and delays', () => {
    const history = fc
      .array(fc.record({ key: fc.constantFrom('a', 'b', 'c'), value: fc.option(fc.integer({ min: 0, max: 2 }), { nil: undefined }) }), {
        maxLength: 12,
      })
      .map((changes): Change[] => changes.map((change, index) => ({ ...change, version: index + 8 })));
    const delivery = history.chain((changes) =>
      fc.tuple(fc.constant(changes), fc.shuffledSubarray([...changes, ...changes], { minLength: changes.length * 2 })),
    );
    fc.assert(
      fc.property(delivery, ([changes, delivered]) => {
        const store = new ReplicaStore<number>();
        for (const { key, version, value } of delivered) {
          if (value === undefined) store.remove(key, String(version));
          else store.put(key, String(version), value);
        }
        const newest = new Map<string, number>();
        for (const { key, value } of changes) {
          if (value === undefined) newest.delete(key);
          else newest.set(key, value);
        }
        expect(new Map(store.entries())).toEqual(newest);
      }),
      { numRuns: 1_000 },
    );
  });

  it('announces exactly the keys whose value differs, when a snapshot replaces everything', () => {
    const contents = fc.dictionary(
      fc.constantFrom('a', 'b', 'c', 'd'),
      fc.record({ x: fc.integer({ min: 0, max: 2 }) }, { noNullPrototype: true }),
    );
    fc.assert(
      fc.property(contents, contents, (before, after) => {
        const store = new ReplicaStore<{ x: number }>();
        for (const [key, value] of Object.entries(before)) store.put(key, '1', value);
        store.flush();
        const announced: string[] = [];
        store.subscribe((keys) => announced.push(...keys));
        const next = new Map<string, Held<{ x: number }>>();
        for (const [key, value] of Object.entries(after)) next.set(key, store.reuse(key, '2', value));
        store.replace(next);
        store.flush();
        const differs = ['a', 'b', 'c', 'd'].filter((key) => before[key]?.x !== after[key]?.x);
        expect(announced.toSorted()).toEqual(differs);
        expect(Object.fromEntries(store.entries())).toEqual(after);
      }),
    );
  });

  it('keeps the identity of a value that did not change', () => {
    const store = new ReplicaStore<{ x: number }>();
    store.put('a', '1', { x: 1 });
    const value = store.get('a');
    store.put('a', '2', { x: 1 });
    store.replace(new Map([['a', store.reuse('a', '3', { x: 1 })]]));
    expect(store.get('a')).toBe(value);
  });

  it('remembers a bounded number of deletions', () => {
    const store = new ReplicaStore<number>();
    for (let count = 0; count < 2_000; count++) store.remove(`k${count}`, '10');
    store.put('k1999', '9', 1);
    store.put('k0', '9', 1);
    expect(Array.from(store.entries())).toEqual([['k0', 1]]);
  });

  it('lets a waiter stop waiting', async () => {
    const store = new ReplicaStore<number>();
    await expect(store.whenSynced(AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' });
    store.markSynced();
    await store.whenSynced(AbortSignal.abort());
  });
});
