import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DesiredState } from './desired-state.ts';
import { PackedMap, type Packing, type Place } from './packed-entries.ts';

/** Keys `a0` to `a9` with owners `row/a/0` to `row/a/9`; a value consists of a number and the owner. */
function rowsOf(letter: string): Packing<string, string> {
  const placeIn = (text: string, before: string): Place | undefined =>
    text.startsWith(before) && /^\d$/.test(text.slice(before.length)) ? Number(text.slice(before.length)) : undefined;
  const ownerOf = (place: Place): string => `row/${letter}/${place}`;
  return {
    placeOfKey: (key) => placeIn(key, letter),
    placeOfOwner: (owner) => placeIn(owner, `row/${letter}/`),
    ownerOf,
    keyOf: (place) => `${letter}${place}`,
    valueOf: (place, number) => `${number} ${ownerOf(place)}`,
    numberIn: (place, value) => {
      const number = Number(value.split(' ')[0]);
      return value === `${number} ${ownerOf(place)}` ? number : undefined;
    },
  };
}

const [rowsOfA, rowsOfB] = [rowsOf('a'), rowsOf('b')] as const;
const packings = [rowsOfA, rowsOfB];
const keys = ['a0', 'a1', 'a2', 'b0', 'b1', 'x', 'y'];
const owners = ['row/a/0', 'row/a/1', 'row/a/2', 'row/b/0', 'row/b/1', 'other', 'urgent'];
const values = ['1 row/a/0', '2 row/a/0', '1 row/a/1', '2 row/a/2', '0 row/b/0', '1 row/b/1', 'other'];

const entries = fc.array(fc.tuple(fc.constantFrom(...keys), fc.constantFrom(...values)), { maxLength: 3 }).map((each) => new Map(each));
const row = fc.record({ packing: fc.constantFrom(...packings), place: fc.nat(2), number: fc.integer({ min: -1, max: 2 }) });
const change = fc.oneof(fc.record({ owner: fc.constantFrom(...owners), entries }), row, fc.record({ gone: row }));
const step = fc.oneof(
  { weight: 8, arbitrary: change },
  fc.array(change, { maxLength: 4 }).map((together) => ({ together })),
  fc.constantFrom('takeDirty' as const, 'takeUrgent' as const),
);
type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

const stateOf = (of: readonly Packing<string, string>[]): DesiredState<string, string> =>
  new DesiredState({
    equal: (a, b) => a === b,
    kindOf: (key) => key.charCodeAt(0),
    isUrgent: (owner) => owner === 'urgent',
    packings: of,
  });

it('entries of owners are the same whether packed or not', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), (steps) => {
      const [plain, packed] = [stateOf([]), stateOf(packings)];
      for (const each of steps) expect(take(packed, each, 'packed')).toEqual(take(plain, each, 'plain'));
      expect(seen(packed)).toEqual(seen(plain));
    }),
    { numRuns: 500 },
  );
});

/** @returns result of the step, and all that can be observed afterwards */
function take(desired: DesiredState<string, string>, each: Step, form: 'packed' | 'plain'): unknown {
  if (each === 'takeDirty') return [desired.takeDirty(), seen(desired)];
  if (each === 'takeUrgent') return [desired.takeUrgent(), seen(desired)];
  if ('together' in each)
    desired.together(() => {
      for (const one of each.together) make(desired, one, form);
    });
  else return [make(desired, each, form), seen(desired)];
  return seen(desired);
}

function make(desired: DesiredState<string, string>, each: Change, form: 'packed' | 'plain'): number {
  if ('entries' in each) return desired.set(each.owner, each.entries);
  if ('gone' in each) return desired.forget(each.gone.packing.ownerOf(each.gone.place));
  const { packing, place, number } = each;
  const owner = packing.ownerOf(place);
  if (form === 'packed') return desired.setPacked(owner, packing, place, number);
  return desired.set(owner, new Map([[packing.keyOf(place), packing.valueOf(place, number)]]));
}

function seen(desired: DesiredState<string, string>) {
  const of = <T>(texts: readonly string[], what: (text: string) => T) => texts.map((text) => [text, what(text)] as const);
  return {
    revision: desired.revision,
    size: desired.size,
    counts: new Map(desired.counts),
    keys: [...desired.keys()].toSorted(),
    owners: [...desired.owners()].toSorted(),
    wanted: of(keys, (key) => desired.wanted(key)),
    ownersOf: of(keys, (key) => desired.ownersOf(key)),
    dirty: of(keys, (key) => desired.isDirty(key)),
    groups: desired.groups,
    keysOf: of(owners, (owner) => desired.keysOf(owner)),
    has: of(owners, (owner) => desired.has(owner)),
    conflicting: of(owners, (owner) => desired.conflictingOwners(owner)),
    disputed: [...desired.disputed()].toSorted(),
  };
}

it('a packed map is a map', () => {
  const put = fc.tuple(fc.constantFrom(...keys), fc.constantFrom(...values, undefined));
  fc.assert(
    fc.property(fc.array(put, { maxLength: 40 }), (changes) => {
      const [plain, packed] = [new Map<string, string>(), new PackedMap<string, string>(packings)];
      for (const [key, value] of changes) {
        if (value === undefined) expect(packed.delete(key)).toBe(plain.delete(key));
        else {
          packed.set(key, value);
          plain.set(key, value);
        }
        expect([packed.size, keys.map((each) => [packed.get(each), packed.has(each)])]).toEqual([
          plain.size,
          keys.map((each) => [plain.get(each), plain.has(each)]),
        ]);
        expect([[...packed.keys()].toSorted(), [...packed.values()].toSorted(), [...packed].toSorted()]).toEqual([
          [...plain.keys()].toSorted(),
          [...plain.values()].toSorted(),
          [...plain].toSorted(),
        ]);
      }
      packed.clear();
      expect([packed.size, ...packed]).toEqual([0]);
    }),
  );
});
