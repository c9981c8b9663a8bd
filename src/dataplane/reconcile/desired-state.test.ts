import fc from 'fast-check';
import { expect, it } from 'vitest';
import { DesiredState } from './desired-state.ts';

it('keeps counts by kind equal to those of its keys, for any claims and withdrawals', () => {
  const keys = fc.uniqueArray(fc.constantFrom('1a', '1b', '2a', '2b', '3a', 'x'), { maxLength: 5 });
  const wantedByOwner = fc.array(fc.tuple(fc.constantFrom('p', 'q', 'r'), keys, fc.constantFrom('old', 'new')), { maxLength: 30 });
  const kindOf = (key: string): number | undefined => (key === 'x' ? undefined : Number(key[0]));
  fc.assert(
    fc.property(wantedByOwner, (all) => {
      const desired = new DesiredState<string, string>({ equal: (a, b) => a === b, kindOf });
      for (const [owner, wanted, value] of all) desired.set(owner, new Map(wanted.map((key) => [key, value])));
      const counts = new Map<number, number>();
      for (const key of desired.keys()) {
        const kind = kindOf(key);
        if (kind !== undefined) counts.set(kind, (counts.get(kind) ?? 0) + 1);
      }
      expect(new Map(desired.counts)).toEqual(counts);
    }),
  );
});

it('returns urgent changes separately, and once', () => {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b, isUrgent: (owner) => owner.startsWith('pod/') });
  desired.set('peer/a', new Map([['x', 1]]));
  expect(desired.takeUrgent()).toBeUndefined();
  desired.set('pod/a', new Map([['y', 1]]));
  desired.forget('pod/a');
  expect(desired.takeUrgent()).toEqual({ keys: new Set(['y']), owners: new Set(['pod/a']), groups: [] });
  desired.set('pod/b', new Map([['z', 1]]));
  expect(desired.takeDirty()).toEqual({ keys: new Set(['x', 'z']), owners: new Set(['peer/a', 'pod/b']), groups: [] });
  expect([desired.takeUrgent(), desired.takeDirty().keys.size]).toEqual([undefined, 0]);
});

it('lets a small change overtake large ones, with its entry flows', () => {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b, isShared: (owner) => owner.startsWith('endpoint/') });
  const entries = (prefix: string, count: number) => new Map(Array.from({ length: count }, (_, at) => [`${prefix}${at}`, 1]));
  desired.set('endpoint/e', new Map([['e', 1]]));
  desired.set('endpoint/left', new Map([['left', 1]]));
  desired.set('large', entries('large', 400));
  const allowance = { keysLeft: 10 };
  desired.overtaking(allowance, () => {
    desired.bringAlong('endpoint/e');
    desired.set('small', new Map([['s', 1]]));
    desired.forget('endpoint/left'); // flows that wait may refer to it
  });
  expect(desired.takeUrgent()?.keys).toEqual(new Set(['e', 's']));
  expect(allowance.keysLeft).toBe(7);
  expect(desired.takeDirty().keys.has('left')).toBe(true);
});

it('limits overtaking, and keeps the order within one change', () => {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b });
  const allowance = { keysLeft: 2 };
  const changed = (...owners: readonly string[]): void => {
    for (const owner of owners)
      desired.set(
        owner,
        new Map([
          [owner, Math.random()],
          [`${owner}-2`, Math.random()],
        ]),
      );
  };
  desired.overtaking(allowance, () => changed('a', 'b', 'c'));
  expect(desired.takeUrgent()?.owners).toEqual(new Set(['a']));
  expect([allowance.keysLeft < 0, desired.takeDirty().owners]).toEqual([true, new Set(['b', 'c'])]);
  // Urgent owners wait for entries that overtake.
  const many = Array.from({ length: 1_000 }, (_, at) => `many${at}`);
  desired.overtaking({ keysLeft: 100_000 }, () => changed(...many));
  expect(desired.takeUrgent()?.keys.size).toBe(1_000);
});

it('applies the latest claim, and names the conflicting owners', () => {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b });
  const owned = (x: number) => new Map(Object.entries({ x, y: 1 }));
  desired.set('a', owned(1));
  desired.set('b', owned(2));
  desired.set('c', owned(2));
  expect([desired.wanted('x'), desired.ownersOf('x'), desired.ownersOf('y')]).toEqual([2, ['b', 'c'], ['a', 'b', 'c']]);
  expect([desired.conflictingOwners('a'), desired.conflictingOwners('b')]).toEqual([['b', 'c'], ['a']]);
  desired.forget('b');
  desired.forget('c');
  expect([desired.wanted('x'), desired.ownersOf('x'), desired.conflictingOwners('a')]).toEqual([1, ['a'], []]);
});

it('tracks dirty keys, and ignores claims that are equal', () => {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b });
  desired.set('a', new Map([['x', 1]]));
  const revision = desired.revision;
  expect(desired.takeDirty()).toEqual({ keys: new Set(['x']), owners: new Set(['a']), groups: [] });
  expect(desired.set('a', new Map([['x', 1]]))).toBe(revision);
  expect(desired.takeDirty()).toEqual({ keys: new Set(), owners: new Set(), groups: [] });
});

it('amends in parts to what is set at once, whatever other owners want', () => {
  const keys = fc.uniqueArray(fc.constantFrom('1a', '1b', '2a', '2b', '3a'), { maxLength: 5 });
  const wishes = fc.array(fc.tuple(fc.constantFrom('p', 'q', 'r'), keys, fc.constantFrom('old', 'new')), { maxLength: 30 });
  fc.assert(
    fc.property(wishes, (all) => {
      const create = () => new DesiredState<string, string>({ equal: (a, b) => a === b, kindOf: (key) => Number(key[0]) });
      const [whole, parts] = [create(), create()];
      for (const [owner, wanted, value] of all) {
        whole.set(owner, new Map(wanted.map((key) => [key, value])));
        for (const key of wanted) parts.amend(owner, new Map([[key, value]]), new Set());
        for (const key of parts.keysOf(owner)) if (!wanted.some((each) => each === key)) parts.amend(owner, new Map(), new Set([key]));
        expect(contentOf(parts)).toEqual(contentOf(whole));
      }
    }),
  );
});

function contentOf(desired: DesiredState<string, string>) {
  const keys = [...desired.keys()].sort();
  const owners = [...desired.owners()].sort();
  return {
    values: keys.map((key) => [key, desired.wanted(key), [...desired.ownersOf(key)].sort()]),
    owners: owners.map((owner) => [owner, [...desired.keysOf(owner)].sort()]),
    counts: new Map(desired.counts),
  };
}
