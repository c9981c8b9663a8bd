import { setImmediate as nextTurn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Packing } from './packed-entries.ts';
import { reconcilerScene } from './testing/reconciler-setup.ts';

let t = reconcilerScene();

beforeEach(() => {
  t = reconcilerScene();
  t.start();
  t.reconciler.allowRemovals();
});
afterEach(() => t.end());

const restart = async (options: Parameters<typeof reconcilerScene>[0]): Promise<void> => {
  await t.end();
  t = reconcilerScene(options);
  t.start();
};

it('makes the target equal to the desired state', async () => {
  t.target.held.set('left over', 9);
  t.reconciler.invalidate();
  await t.want('a', { x: 1, y: 2 });
  await t.want('a', { y: 3 });
  expect([...t.target.held]).toEqual([['y', 3]]);
});

it('writes only changed entries', async () => {
  await t.want('a', { x: 1 });
  t.target.log.length = 0;
  await t.want('b', { y: 2 });
  await t.want('b', { y: 2 });
  expect(t.target.log).toEqual(['apply y']);
});

it('keeps an entry until its last owner withdraws', async () => {
  await t.want('a', { x: 1 });
  await t.want('b', { x: 1 });
  await t.want('a', {});
  expect([...t.target.held]).toEqual([['x', 1]]);
  await t.want('b', {});
  expect([...t.target.held]).toEqual([]);
});

it('removes nothing before removal is allowed', async () => {
  await t.end();
  t = reconcilerScene();
  t.target.held.set('old', 1);
  t.start();
  await t.want('a', { x: 1 });
  expect([...t.target.held.keys()]).toEqual(['old', 'x']);
  t.reconciler.allowRemovals();
  await t.round();
  expect(t.target.held.has('old')).toBe(false);
});

it('removes selected keys early, and the rest once all removals are allowed', async () => {
  await t.end();
  t = reconcilerScene();
  t.target.held = new Map([
    ['pod', 1],
    ['peer', 1],
  ]);
  // During the first round, which has found nothing to remove.
  const apply = t.target.apply.bind(t.target);
  t.target.apply = async (plan) => {
    await apply(plan);
    t.target.apply = apply;
    t.reconciler.allowRemovals((key) => key === 'pod');
  };
  t.start();
  await t.want('a', { x: 1 });
  await t.round();
  expect([...t.target.held.keys()].toSorted()).toEqual(['peer', 'tick', 'x']);
  t.reconciler.allowRemovals();
  await t.round();
  expect([...t.target.held.keys()].toSorted()).toEqual(['tick', 'x']);
});

it.each([['loseRequest'], ['loseAnswer']] as const)('observes again after %s', async (fault) => {
  await t.want('a', { x: 1 });
  t.target.failNext(fault);
  await t.want('b', { y: 2 });
  expect([...t.target.held.keys()].toSorted()).toEqual(['x', 'y']);
  expect(t.target.log.filter((line) => line === 'observe')).toHaveLength(2);
});

it('moves an entry from one owner to another, in either order of events', async () => {
  await t.want('a', { x: 1 });
  await t.want('b', { x: 2 });
  expect(t.target.held.get('x')).toBe(2);
  await t.want('a', {});
  expect(t.target.held.get('x')).toBe(2);
  await t.want('a', { x: 3 });
  await t.want('a', {});
  expect(t.target.held.get('x')).toBe(2);
});

it('never separates the entries of one owner', async () => {
  await restart({ batchSize: 3 });
  for (const owner of ['a', 'b', 'c']) t.desired.set(owner, new Map([`${owner}1`, `${owner}2`].map((key) => [key, 1])));
  t.reconciler.poke();
  await t.reconciler.realized(t.desired.revision, t.deadline());
  expect(t.target.log).toEqual(['observe', 'apply a1 a2', 'apply b1 b2', 'apply c1 c2']);
});

it('observes again when the target restarts during a round', async () => {
  await t.want('a', { x: 1 });
  const { target, reconciler } = t;
  const { apply } = target;
  target.apply = async (plan) => {
    await apply.call(target, plan);
    target.apply = apply;
    target.wipe();
    reconciler.invalidate();
  };
  await t.want('b', { y: 2 });
  expect([...target.held.keys()].toSorted()).toEqual(['x', 'y']);
});

it('ignores the acknowledgement of a target that was replaced meanwhile, observed or remembered', async () => {
  const { target, reconciler } = t;
  const apply = target.apply.bind(target);
  let restarts = 2;
  target.apply = async (plan) => {
    await apply(plan);
    if (restarts-- <= 0) return;
    target.wipe();
    reconciler.invalidate();
  };
  await t.want('a', { x: 1 });
  expect([...target.held]).toEqual([['x', 1]]);
});

it('writes smaller batches of others while urgent owners arrive', async () => {
  await restart({ batchSize: 1 });
  const { target, desired, reconciler } = t;
  const apply = target.apply.bind(target);
  let heldThen = 0;
  let served: Promise<unknown> | undefined;
  target.apply = async (plan) => {
    await apply(plan);
    served ??= t.want('urgent', { x: 1, k9: 99 }).then(() => (heldThen = target.held.size));
  };
  for (let key = 0; key < 10; key++) desired.set(`o${key}`, new Map([[`k${key}`, key]]));
  await t.want('last', { z: 1 });
  await served;
  expect(target.log.slice(1, 4)).toEqual(['apply k0', 'apply x k9', 'apply k1']);
  expect(heldThen).toBeLessThan(10);
  expect(target.held).toEqual(
    new Map([...Array.from({ length: 9 }, (_, key) => [`k${key}`, key] as const), ['k9', 99], ['x', 1], ['z', 1]]),
  );
  expect(target.log.filter((line) => / k9( |$)/.test(line))).toEqual(['apply x k9']);
  await reconciler.confirmed(t.deadline());
  expect(t.drift).toEqual([]);
});

it('writes urgent changes immediately, and batches those that follow closely', async () => {
  await restart({ batchSize: 4, batchSizeWithUrgent: 2 });
  const others = async (names: string): Promise<readonly string[]> => {
    const from = t.target.log.length;
    for (const name of names) t.desired.set(name, new Map([[name, 1]]));
    await t.round();
    return t.target.log.slice(from);
  };
  await t.round();
  expect(await others('abc')).toEqual(['apply a b c tick']);
  await t.want('urgent', { x: 1 });
  t.pass(500);
  expect(await others('def')).toEqual(['apply d e', 'apply f tick']);
  t.pass(500);
  expect(await others('ghi')).toEqual(['apply g h i tick']);
});

/** Waits until everything that needs no timer has run. */
const someTurns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await nextTurn();
};

it('batches nothing after a change without effect', async () => {
  await restart({ gatherMs: 200 });
  const { target } = t;
  await t.want('urgent first', { a: 1 });
  const second = t.want('urgent second', { b: 1 });
  await someTurns();
  await Promise.all([second, t.want('urgent third', { c: 1 })]);
  expect(target.log.slice(1)).toEqual(['apply a', 'apply b c']);
  t.pass(1_000);
  const alone = t.want('urgent fourth', { d: 1 });
  await someTurns();
  expect(target.log.slice(3)).toEqual(['apply d']);
  await alone;
});

it('refuses only the owner that the target refuses of a batch', async () => {
  await restart({ gatherMs: 60_000 });
  await t.want('urgent', { a: 1 });
  t.pass(60_000);
  await t.want('urgent again', { a: 1 });
  await t.want('urgent next', { b: 1 });
  expect(t.target.held.get('b')).toBe(1);
});

it('writes a waiting batch to a target that was replaced meanwhile, and acknowledges nothing before', async () => {
  await restart({ gatherMs: 1 });
  await t.want('urgent first', { x: 1 });
  t.target.poison.add('bad');
  const names = ['a', 'b', 'bad', 'c', 'd'];
  const ended = await Promise.allSettled(names.map((name) => t.want(`urgent ${name}`, { [name]: 1 })));
  expect(ended.map(({ status }) => status)).toEqual(names.map((name) => (name === 'bad' ? 'rejected' : 'fulfilled')));
  expect([...t.target.held.keys()].toSorted()).toEqual(['a', 'b', 'c', 'd', 'x']);
  expect(t.target.log).toContain('refuse a b bad c d');
});

it('ends while a batch waits', async () => {
  await restart({ gatherMs: 50 });
  await t.want('urgent first', { a: 1 });
  let isDone = false;
  const second = t.want('urgent second', { b: 1 }).then(() => (isDone = true));
  await someTurns();
  t.target.wipe();
  t.reconciler.invalidate();
  expect(isDone).toBe(false);
  await second;
  expect(t.target.held.get('b')).toBe(1);
  await t.round();
  expect([...t.target.held.keys()].filter((key) => key !== 'tick').toSorted()).toEqual(['a', 'b']);
});

it('ends while it gathers', async () => {
  await restart({ gatherMs: 60_000 });
  await t.want('urgent first', { a: 1 });
  t.desired.set('urgent second', new Map([['b', 1]]));
  t.reconciler.poke();
  await someTurns();
  await t.end();
});

it('ignores the acknowledgement of a replaced target in the urgent lane too', async () => {
  await restart({ batchSize: 1 });
  const { target, desired, reconciler } = t;
  const apply = target.apply.bind(target);
  let applied = 0;
  target.apply = async (plan) => {
    await apply(plan);
    if (plan.put.has('x') && applied++ === 0) {
      target.wipe();
      reconciler.invalidate();
    }
  };
  for (let key = 0; key < 5; key++) desired.set(`o${key}`, new Map([[`k${key}`, key]]));
  await t.want('urgent', { x: 1 });
  expect(target.held.get('x')).toBe(1);
});

it('stops waiting when its caller does, and reports what blocked the target', async () => {
  await expect(t.reconciler.realized(t.desired.revision + 1, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
});

/** Keys `p` and `q` of owners `a` and `b`. */
const packings: readonly Packing<string, number>[] = [
  ['a', 'p'],
  ['b', 'q'],
].map(([owner = '', key = '']) => ({
  placeOfKey: (text) => (text === key ? 0 : undefined),
  placeOfOwner: (text) => (text === owner ? 0 : undefined),
  ownerOf: () => owner,
  keyOf: () => key,
  valueOf: (_, number) => number,
  numberIn: (_, value) => value,
}));

it.each([
  ['as they are', {}],
  ['packed', { packings }],
  ['as they are, and what is urgent gathered, and batches are smaller beside it', { gatherMs: 1, batchSize: 3, batchSizeWithUrgent: 1 }],
])('converges from any history of changes and faults, with entries kept %s', async (_, options) => {
  const step = fc.oneof(
    fc.record({
      owner: fc.constantFrom('a', 'b', 'urgent'),
      keys: fc.uniqueArray(fc.constantFrom('p', 'q', 'r', 's')),
      value: fc.constantFrom(1, 2),
    }),
    fc.constantFrom('refuse', 'loseRequest', 'loseAnswer', 'wipe', 'turn'),
  );
  interface Want {
    readonly owner: string;
    readonly keys: readonly string[];
    readonly value: number;
  }
  const history = async (steps: readonly (string | Want)[]): Promise<void> => {
    for (const action of steps) {
      if (typeof action === 'object') t.desired.set(action.owner, new Map(action.keys.map((key) => [key, action.value])));
      else if (action === 'wipe') {
        t.target.wipe();
        t.reconciler.invalidate();
      } else if (action === 'turn') await new Promise((resolve) => setImmediate(resolve));
      else t.target.failNext(action as 'refuse');
      t.reconciler.poke();
    }
  };
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
      await restart({ batchSize: 2, ...options });
      t.reconciler.allowRemovals();
      await history(steps);
      t.target.failNoMore();
      await t.round(); // may still back off owners that were refused before
      t.pass(3_600_000);
      await t.reconciler.confirmed(t.deadline());
      expect(t.target.held).toEqual(new Map(Array.from(t.desired.keys(), (key) => [key, t.desired.wanted(key)])));
      for (const key of t.desired.keys()) expect(t.desired.ownersOf(key)).not.toEqual([]);
    }),
    { numRuns: 200 },
  );
});

describe('entries that are desired together', () => {
  const all = ['a', 'b', 'c', 'd', 'e'];
  const wantAll = (value: number, ...more: readonly string[]): number => {
    for (const owner of more) t.desired.set(owner, new Map([[owner, 1]]));
    t.desired.together(() => {
      for (const owner of all) t.desired.set(owner, new Map([[`${owner}${value}`, value]]));
    });
    t.reconciler.poke();
    return t.desired.revision;
  };
  /** Keys of the group that the target had, for each of its states. */
  const states = (): string[] => {
    const seen: string[] = [];
    const apply = t.target.apply.bind(t.target);
    t.target.apply = async (plan) => {
      await apply(plan).finally(() =>
        seen.push(
          [...t.target.held.keys()]
            .filter((key) => /^[a-e]/.test(key))
            .toSorted()
            .join(' '),
        ),
      );
    };
    return seen;
  };
  const [old, now] = [1, 2].map((value) => all.map((key) => `${key}${value}`).join(' '));

  beforeEach(async () => {
    await t.end();
    t = reconcilerScene({ batchSize: 2 });
    t.reconciler.allowRemovals();
    t.start();
    await t.reconciler.realized(wantAll(1), t.deadline());
  });

  it('are never present in part, whatever else is desired', async () => {
    const seen = states();
    await t.reconciler.realized(wantAll(2, 'x', 'y', 'z'), t.deadline());
    expect(seen.filter((state) => state !== old && state !== now)).toEqual([]);
    expect(seen.at(-1)).toBe(now);
  });

  it.each([['loseRequest'], ['loseAnswer']] as const)('are complete after %s', async (fault) => {
    const seen = states();
    t.target.failNext(fault);
    await t.reconciler.realized(wantAll(2, 'x', 'y', 'z'), t.deadline());
    expect(seen.filter((state) => state !== old && state !== now)).toEqual([]);
    expect(seen.at(-1)).toBe(now);
  });

  it('are complete if they become desired during a comparison', async () => {
    const many = new Map(Array.from({ length: 3_000 }, (_, at) => [`many ${at}`, at]));
    await t.want('many', Object.fromEntries(many));
    const seen = states();
    t.target.held.delete('many 2999');
    const wanted = t.desired.wanted.bind(t.desired);
    t.desired.wanted = (key) => {
      if (key !== 'many 1') return wanted(key);
      t.desired.wanted = wanted;
      void Promise.resolve().then(() => wantAll(2));
      return wanted(key);
    };
    t.reconciler.invalidate();
    await expect.poll(() => seen.at(-1)).toBe(now);
    expect(seen.filter((state) => state !== old && state !== now)).toEqual([]);
  });
});
