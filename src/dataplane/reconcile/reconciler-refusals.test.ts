import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { reconcilerScene } from './testing/reconciler-setup.ts';

let t = reconcilerScene();

beforeEach(() => {
  t = reconcilerScene();
  t.start();
  t.reconciler.allowRemovals();
});
afterEach(() => t.end());

it('isolates the one refused owner, and writes it when it is corrected', async () => {
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

it('reports the end of failures, and when refused entries are written', async () => {
  t.target.die();
  t.desired.set('a', new Map([['x', 1]]));
  t.reconciler.invalidate();
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

it('retries refused entries with growing back-off', async () => {
  t.target.poison.add('bad');
  t.desired.set('b', new Map([['bad', 1]]));
  await t.round();
  for (let second = 0; second < 600; second++) {
    t.pass(1_000);
    t.reconciler.recheck();
    await t.round();
  }
  expect(t.refused).toHaveLength(1 + 4); // after 30, 60, 120 and 240 s
});

it('observes again before it accepts a refusal', async () => {
  await t.want('a', { ground: 1 });
  const { apply } = t.target;
  t.target.apply = async (plan) => {
    // Like a flow that needs a group: refused while the group is missing.
    const stands = t.target.held.has('ground') || plan.put.has('ground');
    if (!stands) throw new SeineError('REFUSED', 'no ground');
    await apply.call(t.target, plan);
  };
  t.target.wipe(); // without an event
  await t.want('b', { x: 1 });
  expect([...t.target.held.keys()].toSorted()).toEqual(['ground', 'x']);
  expect(t.refused).toEqual([]);
});

it('refuses no owner if another process changes the target between observation and write', async () => {
  await t.want('a', { ground: 1 });
  const { apply, observe } = t.target;
  // OVS reports this before it refuses what depends on it.
  t.target.observe = async () => {
    const seen = await observe.call(t.target);
    t.target.held.delete('ground');
    t.target.observe = observe;
    t.reconciler.recheck();
    return seen;
  };
  t.target.apply = async (plan) => {
    const stands = t.target.held.has('ground') || plan.put.has('ground');
    if (plan.put.has('x') && !stands) throw new SeineError('REFUSED', 'no ground');
    await apply.call(t.target, plan);
  };
  t.reconciler.recheck();
  await t.want('b', { x: 1 });
  expect([...t.target.held.keys()].toSorted()).toEqual(['ground', 'x']);
  expect([t.refused, t.reconciler.failures()]).toEqual([[], []]);
});

it('refuses an owner in the end if others change the target after each observation', async () => {
  const { observe } = t.target;
  t.target.observe = async () => {
    const seen = await observe.call(t.target);
    if (t.refused.length === 0) t.reconciler.recheck();
    return seen;
  };
  t.target.poison.add('bad');
  t.reconciler.recheck();
  await expect(t.want('b', { bad: 1 })).rejects.toMatchObject({ code: 'REFUSED' });
  await t.want('c', { y: 1 });
  expect(t.target.held.has('y')).toBe(true);
});

it('drops a refusal with the owner, and does not spin', async () => {
  t.target.poison.add('bad');
  t.desired.set('b', new Map([['bad', 1]]));
  t.reconciler.poke();
  await t.reconciler.realized(t.desired.revision, t.deadline());
  expect(t.reconciler.failures()).toHaveLength(1);
  t.desired.forget('b');
  await t.round();
  expect(t.reconciler.failures()).toEqual([]);
});

it('retries the rest of an owner immediately when its refused part is withdrawn', async () => {
  t.target.poison.add('bad');
  const bad = t.desired.set('b', new Map(Object.entries({ bad: 1, good: 1 })));
  t.reconciler.poke();
  await expect(t.reconciler.realizedFor('b', bad, t.deadline())).rejects.toMatchObject({ code: 'REFUSED' });
  await t.want('b', { good: 1 });
  expect([...t.target.held.keys()]).toEqual(['good']);
});

it('writes entries of a refused owner that other owners desire too', async () => {
  t.target.poison.add('bad');
  t.desired.set('b', new Map(Object.entries({ bad: 1, shared: 1 })));
  await t.want('a', { shared: 1 });
  expect([...t.target.held.keys()]).toEqual(['shared']);
  expect(t.reconciler.failures().map(({ owner }) => owner)).toEqual(['b']);
});

it('clears a refusal once another process has added the refused entry, and does not spin', async () => {
  t.target.poison.add('bad');
  await expect(t.want('b', { bad: 1 })).rejects.toMatchObject({ code: 'REFUSED' });
  t.target.held.set('bad', 1);
  t.reconciler.recheck();
  await t.round();
  expect(t.reconciler.failures()).toEqual([]);
  expect(t.over.at(-1)).toBe('accepted b');
});

it('accepts a refusal without a complete observation, if the target observes before it writes', async () => {
  const sure = reconcilerScene({ refusals: 'certain' });
  sure.start();
  try {
    await sure.want('a', { x: 1 });
    sure.target.poison.add('bad');
    const looks = sure.target.log.filter((line) => line === 'observe').length;
    await expect(sure.want('b', { bad: 1 })).rejects.toMatchObject({ code: 'REFUSED' });
    expect(sure.target.log.filter((line) => line === 'observe')).toHaveLength(looks);
    expect(sure.over).toEqual([]);
  } finally {
    await sure.end();
  }
});

it('writes batches concurrently if configured, and isolates the refused one', async () => {
  const scene = reconcilerScene({ batchSize: 1, refusals: 'certain', sideBySide: 3 });
  scene.start();
  try {
    await scene.round();
    scene.target.poison.add('bad');
    const apply = scene.target.apply.bind(scene.target);
    const together = Promise.withResolvers<void>();
    const begun: string[] = [];
    scene.target.apply = async (plan) => {
      begun.push(...plan.put.keys());
      if (begun.length === 3) together.resolve();
      await together.promise;
      await apply(plan);
    };
    const wants = [scene.want('urgent/a', { x: 1 }), scene.want('urgent/b', { bad: 1 }), scene.want('urgent/c', { z: 1 })];
    expect((await Promise.allSettled(wants)).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled']);
    expect([...scene.target.held.keys()].filter((key) => key !== 'tick').toSorted()).toEqual(['x', 'z']);
    expect(scene.reconciler.failures().map(({ owner }) => owner)).toEqual(['urgent/b']);
  } finally {
    await scene.end();
  }
});

it('reports an owner as realized while others are in progress, and that one was refused', async () => {
  const scene = reconcilerScene({ batchSize: 1 });
  scene.start();
  try {
    await scene.round();
    const apply = scene.target.apply.bind(scene.target);
    const stuck = Promise.withResolvers<void>();
    scene.target.apply = async (plan) => {
      if (plan.put.has('slow')) await stuck.promise;
      await apply(plan);
    };
    scene.target.poison.add('bad');
    scene.desired.set('a', new Map([['x', 1]]));
    scene.desired.set('slow', new Map([['slow', 1]]));
    scene.desired.set('bad', new Map([['bad', 1]]));
    const { revision } = scene.desired;
    expect(scene.reconciler.isHeld('a')).toBe(false);
    scene.reconciler.poke();
    await scene.reconciler.held(['a'], scene.deadline());
    expect([scene.reconciler.isHeld('slow'), scene.reconciler.realizedRevision < revision]).toEqual([false, true]);
    stuck.resolve();
    await scene.reconciler.held(['a', 'slow', 'bad'], scene.deadline());
    expect([...scene.target.held.keys()].filter((key) => key !== 'tick').toSorted()).toEqual(['slow', 'x']);
    scene.desired.set('a', new Map([['x', 2]]));
    expect(scene.reconciler.isHeld('a')).toBe(false);
  } finally {
    await scene.end();
  }
});
