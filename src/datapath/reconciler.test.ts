import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { DesiredState } from './desired-state.ts';
import { FakeTarget } from './fake-target.ts';
import { Reconciler } from './reconciler.ts';

const equal = (a: number, b: number): boolean => a === b;

function setUp(portionSize = 100) {
  const desired = new DesiredState<string, number>({ equal, isUrgent: (owner) => owner.startsWith('urgent') });
  const target = new FakeTarget<string, number>();
  const drift: string[] = [];
  const repaired: number[] = [];
  const refused: [string, SeineError][] = [];
  const over: string[] = [];
  let nowMs = 0;
  const reconciler = new Reconciler<string, number>({
    name: 'fake',
    desired,
    target,
    equal,
    portionSize,
    backoffMs: () => 0,
    now: () => nowMs,
    events: {
      round: () => {},
      failure: () => over.push('failure'),
      recovered: () => over.push('recovered'),
      accepted: (owner) => over.push(`accepted ${owner}`),
      refused: (owner, error) => refused.push([owner, error]),
      drift: (keys) => drift.push(...keys),
      repaired: (tookMs) => repaired.push(tookMs),
    },
  });
  const deadline = (): AbortSignal => AbortSignal.timeout(5_000);
  const want = async (owner: string, entries: Record<string, number>): Promise<void> => {
    const revision = desired.set(owner, new Map(Object.entries(entries)));
    reconciler.poke();
    await reconciler.realizedFor(owner, revision, deadline());
  };
  return { desired, target, reconciler, drift, repaired, refused, over, want, deadline, pass: (ms: number) => (nowMs += ms) };
}

describe('Reconciler', () => {
  let stop = new AbortController();
  let running: Promise<void>;
  let t = setUp();
  const start = (portionSize?: number): void => {
    t = setUp(portionSize);
    running = t.reconciler.run(stop.signal);
  };
  const round = async (): Promise<void> => {
    const revision = t.desired.set('tick', new Map([['tick', Math.random()]]));
    t.reconciler.poke();
    await t.reconciler.realized(revision, t.deadline());
  };

  beforeEach(() => {
    stop = new AbortController();
    start();
    t.reconciler.allowRemovals();
  });
  afterEach(async () => {
    stop.abort();
    await running;
  });

  it('makes the target hold what is wanted and nothing else', async () => {
    t.target.held.set('left over', 9);
    t.reconciler.distrust();
    await t.want('a', { x: 1, y: 2 });
    await t.want('a', { y: 3 });
    expect([...t.target.held]).toEqual([['y', 3]]);
  });

  it('touches only what changed', async () => {
    await t.want('a', { x: 1 });
    t.target.log.length = 0;
    await t.want('b', { y: 2 });
    await t.want('b', { y: 2 });
    expect(t.target.log).toEqual(['apply y']);
  });

  it('keeps an entry until its last owner lets go', async () => {
    await t.want('a', { x: 1 });
    await t.want('b', { x: 1 });
    await t.want('a', {});
    expect([...t.target.held]).toEqual([['x', 1]]);
    await t.want('b', {});
    expect([...t.target.held]).toEqual([]);
  });

  it('removes nothing before it may', async () => {
    stop.abort();
    await running;
    stop = new AbortController();
    t = setUp();
    t.target.held.set('old', 1);
    running = t.reconciler.run(stop.signal);
    await t.want('a', { x: 1 });
    expect([...t.target.held.keys()]).toEqual(['old', 'x']);
    t.reconciler.allowRemovals();
    await round();
    expect(t.target.held.has('old')).toBe(false);
  });

  it('removes early what it is told to, and the rest when everything may go', async () => {
    stop.abort();
    await running;
    stop = new AbortController();
    t = setUp();
    t.target.held = new Map([
      ['pod', 1],
      ['peer', 1],
    ]);
    // In the midst of the first round, which has found nothing to remove.
    const apply = t.target.apply.bind(t.target);
    t.target.apply = async (plan) => {
      await apply(plan);
      t.target.apply = apply;
      t.reconciler.allowRemovals((key) => key === 'pod');
    };
    running = t.reconciler.run(stop.signal);
    await t.want('a', { x: 1 });
    await round();
    expect([...t.target.held.keys()].toSorted()).toEqual(['peer', 'tick', 'x']);
    t.reconciler.allowRemovals();
    await round();
    expect([...t.target.held.keys()].toSorted()).toEqual(['tick', 'x']);
  });

  it.each([['loseRequest'], ['loseAnswer']] as const)('observes again after %s', async (fault) => {
    await t.want('a', { x: 1 });
    t.target.failNext(fault);
    await t.want('b', { y: 2 });
    expect([...t.target.held.keys()].toSorted()).toEqual(['x', 'y']);
    expect(t.target.log.filter((line) => line === 'observe')).toHaveLength(2);
  });

  it('sets aside the one owner whose wish is refused, and takes it when it is mended', async () => {
    t.target.poison.add('bad');
    const revision = t.desired.set('b', new Map([['bad', 1]]));
    for (const owner of ['a', 'c', 'd', 'e']) t.desired.set(owner, new Map([[owner, 1]]));
    t.reconciler.poke();
    await t.reconciler.realized(t.desired.revision, t.deadline());
    expect([...t.target.held.keys()].toSorted()).toEqual(['a', 'c', 'd', 'e']);
    await expect(t.reconciler.realizedFor('b', revision, t.deadline())).rejects.toMatchObject({ code: 'REFUSED' });
    expect(t.reconciler.failures().map(({ owner }) => owner)).toEqual(['b']);
    await t.want('b', { good: 1 });
    expect(t.target.held.has('good')).toBe(true);
    expect(t.reconciler.failures()).toEqual([]);
  });

  it('says when failing is over, and when an owner gets what was refused', async () => {
    t.target.die();
    t.desired.set('a', new Map([['x', 1]]));
    t.reconciler.distrust();
    await expect.poll(() => t.over.length).toBeGreaterThan(2);
    t.target.revive();
    await t.want('a', { x: 1 });
    await expect.poll(() => t.over.at(-1)).toBe('recovered');
    expect(t.over.filter((each) => each === 'recovered')).toHaveLength(1);
    t.target.poison.add('bad');
    await expect(t.want('b', { bad: 1 })).rejects.toThrow('REFUSED');
    expect(t.over.at(-1)).toBe('recovered');
    await t.want('b', { good: 1 });
    expect(t.over.at(-1)).toBe('accepted b');
    expect(t.reconciler.ageMs).toBe(0);
  });

  it('asks for what is refused again, but less and less often', async () => {
    t.target.poison.add('bad');
    t.desired.set('b', new Map([['bad', 1]]));
    await round();
    for (let second = 0; second < 600; second++) {
      t.pass(1_000);
      t.reconciler.suspect();
      await round();
    }
    expect(t.refused).toHaveLength(1 + 4); // after 30, 60, 120 and 240 s
  });

  it('leaves foreign changes alone while repair is paused, makes wishes true, and puts everything back after that', async () => {
    await t.want('a', { mine: 1 });
    t.reconciler.pause();
    t.target.held.set('mine', 7);
    t.reconciler.suspect();
    await t.want('b', { other: 2 });
    expect(Object.fromEntries(t.target.held)).toMatchObject({ mine: 7, other: 2 });
    expect(t.drift).toEqual([]);
    t.reconciler.resume();
    await round();
    expect(t.target.held.get('mine')).toBe(1);
    expect(t.drift).toEqual(['mine']);
  });

  it('fills a target that is another one than before although repair is paused', async () => {
    await t.want('a', { mine: 1 });
    t.reconciler.pause();
    t.target.wipe();
    t.reconciler.distrust();
    await round();
    expect(t.target.held.get('mine')).toBe(1);
  });

  it('looks at the target again before it believes a refusal', async () => {
    await t.want('a', { ground: 1 });
    const { apply } = t.target;
    t.target.apply = async (plan) => {
      // As a flow that needs a group: refused while that is not there.
      const stands = t.target.held.has('ground') || plan.put.has('ground');
      if (!stands) throw new SeineError('REFUSED', 'no ground');
      await apply.call(t.target, plan);
    };
    t.target.wipe(); // and nobody says so
    await t.want('b', { x: 1 });
    expect([...t.target.held.keys()].toSorted()).toEqual(['ground', 'x']);
    expect(t.refused).toEqual([]);
  });

  it('forgets a refusal with the owner, and does not spin', async () => {
    t.target.poison.add('bad');
    t.desired.set('b', new Map([['bad', 1]]));
    t.reconciler.poke();
    await t.reconciler.realized(t.desired.revision, t.deadline());
    expect(t.reconciler.failures()).toHaveLength(1);
    t.desired.forget('b');
    await round();
    expect(t.reconciler.failures()).toEqual([]);
  });

  it('tries the rest of a wish at once when its bad part is taken back', async () => {
    t.target.poison.add('bad');
    const bad = t.desired.set('b', new Map(Object.entries({ bad: 1, good: 1 })));
    t.reconciler.poke();
    await expect(t.reconciler.realizedFor('b', bad, t.deadline())).rejects.toMatchObject({ code: 'REFUSED' });
    await t.want('b', { good: 1 });
    expect([...t.target.held.keys()]).toEqual(['good']);
  });

  it('makes what a refused owner wants for the others who want it too', async () => {
    t.target.poison.add('bad');
    t.desired.set('b', new Map(Object.entries({ bad: 1, shared: 1 })));
    await t.want('a', { shared: 1 });
    expect([...t.target.held.keys()]).toEqual(['shared']);
    expect(t.reconciler.failures().map(({ owner }) => owner)).toEqual(['b']);
  });

  it('moves an entry from one owner to another, whoever is heard of first', async () => {
    await t.want('a', { x: 1 });
    await t.want('b', { x: 2 });
    expect(t.target.held.get('x')).toBe(2);
    await t.want('a', {});
    expect(t.target.held.get('x')).toBe(2);
    await t.want('a', { x: 3 });
    await t.want('a', {});
    expect(t.target.held.get('x')).toBe(2);
  });

  it('never parts what one owner asked for', async () => {
    stop.abort();
    await running;
    stop = new AbortController();
    start(3);
    for (const owner of ['a', 'b', 'c']) t.desired.set(owner, new Map([`${owner}1`, `${owner}2`].map((key) => [key, 1])));
    t.reconciler.poke();
    await t.reconciler.realized(t.desired.revision, t.deadline());
    expect(t.target.log).toEqual(['observe', 'apply a1 a2', 'apply b1 b2', 'apply c1 c2']);
  });

  it('restores everything after the target was wiped, and says what was gone', async () => {
    await t.want('a', { x: 1, y: 2 });
    t.target.wipe();
    t.reconciler.distrust();
    t.pass(40);
    await t.want('b', { z: 3 });
    expect([...t.target.held.keys()].toSorted()).toEqual(['x', 'y', 'z']);
    expect(t.drift.toSorted()).toEqual(['x', 'y']);
    expect(t.repaired).toEqual([40]);
  });

  it('finds by a sweep what somebody changed in silence, and puts it back', async () => {
    await t.want('a', { x: 1, y: 2 });
    t.target.held.set('x', 9);
    t.target.held.delete('y');
    t.target.held.set('foreign', 7);
    t.reconciler.allowRemovals();
    await t.want('b', { z: 3 });
    await t.reconciler.sweep(t.deadline());
    await t.reconciler.realized(t.desired.revision, t.deadline());
    await expect.poll(() => Object.fromEntries(t.target.held)).toEqual({ x: 1, y: 2, z: 3 });
    expect(t.drift.toSorted()).toEqual(['foreign', 'x', 'y']);
  });

  it('finds by a sweep what is gone and nothing else, where entries are shown one by one', async () => {
    await t.want('a', { x: 1, y: 2 });
    t.target.visit = async (see) => {
      for (const [key, value] of t.target.held) see(key, value);
    };
    await t.reconciler.sweep(t.deadline());
    expect(t.drift).toEqual([]);
    t.target.held.delete('y');
    await t.reconciler.sweep(t.deadline());
    await expect.poll(() => Object.fromEntries(t.target.held)).toEqual({ x: 1, y: 2 });
    expect(t.drift).toEqual(['y']);
  });

  it('changes nothing by a sweep that finds all as it was, nor by one during which it writes', async () => {
    await t.want('a', { x: 1 });
    await t.reconciler.sweep(t.deadline());
    const { target } = t;
    const seen = target.observe.bind(target);
    target.observe = async () => {
      const before = await seen();
      target.observe = seen;
      await t.want('b', { y: 2 });
      await t.want('a', { x: 5 });
      return before;
    };
    await t.reconciler.sweep(t.deadline());
    expect(t.drift).toEqual([]);
    expect(target.log.filter((line) => line === 'observe')).toHaveLength(3);
  });

  it('observes again when the target restarts during a round', async () => {
    await t.want('a', { x: 1 });
    const { target, reconciler } = t;
    const { apply } = target;
    target.apply = async (plan) => {
      await apply.call(target, plan);
      target.apply = apply;
      target.wipe();
      reconciler.distrust();
    };
    await t.want('b', { y: 2 });
    expect([...target.held.keys()].toSorted()).toEqual(['x', 'y']);
  });

  it('repairs a key that is changed again and again more and more slowly, and reports it', async () => {
    for (let key = 0; key < 20; key++) t.desired.set(`o${key}`, new Map([[`k${key}`, key]]));
    await round();
    for (let fight = 0; fight < 6; fight++) {
      t.target.held.set('k3', 99);
      t.reconciler.distrust();
      await round();
    }
    expect(t.target.held.get('k3')).toBe(99);
    expect([...t.reconciler.contested().keys()]).toEqual(['k3']);
    t.pass(60_000);
    t.reconciler.distrust();
    await round();
    expect(t.target.held.get('k3')).toBe(3);
  });

  it('puts a new wish at once, even where somebody fought over the old one', async () => {
    for (let key = 0; key < 20; key++) t.desired.set(`o${key}`, new Map([[`k${key}`, key]]));
    await round();
    for (let fight = 0; fight < 7; fight++) {
      t.target.held.set('k3', 99);
      t.reconciler.suspect();
      await round();
    }
    await t.want('o3', { k3: 33 });
    expect(t.target.held.get('k3')).toBe(33);
  });

  it('realizes wishes although somebody changes the target all the time', async () => {
    const { target, reconciler } = t;
    const observe = target.observe.bind(target);
    target.observe = async () => {
      const held = await observe();
      target.held.set('foreign', Math.random());
      reconciler.suspect();
      return held;
    };
    reconciler.suspect();
    for (let key = 0; key < 20; key++) {
      await t.want('a', { x: key });
      expect(target.held.get('x')).toBe(key);
    }
    target.observe = observe;
    await reconciler.confirmed(t.deadline());
    expect([...target.held]).toEqual([['x', 19]]);
  });

  it('takes no word of a target that was replaced meanwhile, whether it was looked at or not', async () => {
    const { target, reconciler } = t;
    const apply = target.apply.bind(target);
    let restarts = 2;
    target.apply = async (plan) => {
      await apply(plan);
      if (restarts-- <= 0) return;
      target.wipe();
      reconciler.distrust();
    };
    await t.want('a', { x: 1 });
    expect([...target.held]).toEqual([['x', 1]]);
  });

  it('serves the urgent between two portions of the others, and tells them at once', async () => {
    stop.abort();
    await running;
    stop = new AbortController();
    start(1);
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

  it('takes no word for the urgent either of a target that was replaced meanwhile', async () => {
    stop.abort();
    await running;
    stop = new AbortController();
    start(1);
    const { target, desired, reconciler } = t;
    const apply = target.apply.bind(target);
    let applied = 0;
    target.apply = async (plan) => {
      await apply(plan);
      if (plan.put.has('x') && applied++ === 0) {
        target.wipe();
        reconciler.distrust();
      }
    };
    for (let key = 0; key < 5; key++) desired.set(`o${key}`, new Map([[`k${key}`, key]]));
    await t.want('urgent', { x: 1 });
    expect(target.held.get('x')).toBe(1);
  });

  it('gives up waiting when its caller does, and says why nothing happened', async () => {
    await expect(t.reconciler.realized(t.desired.revision + 1, AbortSignal.abort())).rejects.toMatchObject({ code: 'CANCELLED' });
  });

  it('converges from any history of wishes and faults', async () => {
    const step = fc.oneof(
      fc.record({
        owner: fc.constantFrom('a', 'b', 'urgent'),
        keys: fc.uniqueArray(fc.constantFrom('p', 'q', 'r', 's')),
        value: fc.constantFrom(1, 2),
      }),
      fc.constantFrom('refuse', 'loseRequest', 'loseAnswer', 'wipe', 'turn'),
    );
    interface Wish {
      readonly owner: string;
      readonly keys: readonly string[];
      readonly value: number;
    }
    const history = async (steps: readonly (string | Wish)[]): Promise<void> => {
      for (const action of steps) {
        if (typeof action === 'object') t.desired.set(action.owner, new Map(action.keys.map((key) => [key, action.value])));
        else if (action === 'wipe') {
          t.target.wipe();
          t.reconciler.distrust();
        } else if (action === 'turn') await new Promise((resolve) => setImmediate(resolve));
        else t.target.failNext(action as 'refuse');
        t.reconciler.poke();
      }
    };
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 20 }), async (steps) => {
        stop.abort();
        await running;
        stop = new AbortController();
        start(2);
        t.reconciler.allowRemovals();
        await history(steps);
        t.target.failNoMore();
        await round(); // may still set owners aside that were refused before
        t.pass(3_600_000);
        await t.reconciler.confirmed(t.deadline());
        expect(t.target.held).toEqual(new Map(Array.from(t.desired.keys(), (key) => [key, t.desired.wanted(key)])));
        for (const key of t.desired.keys()) expect(t.desired.ownersOf(key)).not.toEqual([]);
      }),
      { numRuns: 200 },
    );
  });
});

describe('DesiredState', () => {
  it('gives the one who asked last its way, and names the rivals', () => {
    const desired = new DesiredState<string, number>({ equal });
    const owned = (x: number) => new Map(Object.entries({ x, y: 1 }));
    desired.set('a', owned(1));
    desired.set('b', owned(2));
    desired.set('c', owned(2));
    expect([desired.wanted('x'), desired.ownersOf('x'), desired.ownersOf('y')]).toEqual([2, ['b', 'c'], ['a', 'b', 'c']]);
    expect([desired.rivalsOf('a'), desired.rivalsOf('b')]).toEqual([['b', 'c'], ['a']]);
    desired.forget('b');
    desired.forget('c');
    expect([desired.wanted('x'), desired.ownersOf('x'), desired.rivalsOf('a')]).toEqual([1, ['a'], []]);
  });

  it('knows which keys are dirty, and that asking twice is asking once', () => {
    const desired = new DesiredState<string, number>({ equal });
    desired.set('a', new Map([['x', 1]]));
    const revision = desired.revision;
    expect(desired.takeDirty()).toEqual({ keys: new Set(['x']), owners: new Set(['a']) });
    expect(desired.set('a', new Map([['x', 1]]))).toBe(revision);
    expect(desired.takeDirty()).toEqual({ keys: new Set(), owners: new Set() });
  });
});
