import { once } from 'node:events';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { restMs, untilDueMs } from './periodic-check.ts';
import { reconcilerScene } from './testing/reconciler-setup.ts';

let t = reconcilerScene();

beforeEach(() => {
  t = reconcilerScene();
  t.start();
  t.reconciler.allowRemovals();
});
afterEach(() => t.end());

it('reports the age of the last complete observation: by a round, and by a sweep', async () => {
  await t.want('a', { x: 1 });
  t.pass(3_000);
  await t.want('a', { x: 2 });
  expect(t.reconciler.lastCheck).toEqual({ ageMs: 3_000, tookMs: 0 });
  await t.reconciler.sweep(t.deadline());
  expect(t.reconciler.lastCheck).toEqual({ ageMs: 0, tookMs: 0 });
});

it('has not observed a replaced target', async () => {
  await t.want('a', { x: 1 });
  t.target.die();
  t.reconciler.invalidate();
  expect(t.reconciler.lastCheck).toBeUndefined();
  t.target.revive();
  await t.round();
  expect(t.reconciler.lastCheck).toEqual({ ageMs: 0, tookMs: 0 });
});

it('has not observed a target that was replaced during the observation', async () => {
  await t.want('a', { x: 1 });
  const begun = Promise.withResolvers<void>();
  const goesOn = Promise.withResolvers<void>();
  t.target.visit = async () => {
    begun.resolve();
    await goesOn.promise;
  };
  const sweep = t.reconciler.sweep(t.deadline());
  await begun.promise;
  t.target.die();
  t.reconciler.invalidate();
  goesOn.resolve();
  await sweep;
  expect(t.reconciler.lastCheck).toBeUndefined();
});

it('keeps the age of the last completed observation', async () => {
  await t.want('a', { x: 1 });
  t.pass(2_000);
  t.target.die();
  await expect(t.reconciler.sweep(t.deadline())).rejects.toThrow('not reachable');
  expect(t.reconciler.lastCheck?.ageMs).toBe(2_000);
});

it('reports the number of unrepaired foreign changes', async () => {
  await t.want('a', { x: 1, y: 2, z: 3 });
  t.target.held.delete('x');
  t.target.failNext(...Array.from({ length: 1_000 }, () => 'loseRequest' as const));
  await t.reconciler.sweep(t.deadline());
  await expect.poll(() => t.reconciler.repairing).toBe(1);
  t.target.failNoMore();
  await t.round();
  expect(t.reconciler.repairing).toBe(0);
});

it('reports the duration of an observation without the repairs that followed it', async () => {
  await t.want('a', { x: 1, y: 2 });
  const apply = t.target.apply.bind(t.target);
  t.target.apply = async (plan) => {
    t.pass(9_000);
    await apply(plan);
  };
  t.target.held.clear();
  t.reconciler.recheck();
  await expect.poll(() => t.target.held.size).toBe(2);
  await t.round();
  expect(t.reconciler.observeTookMs).toBeLessThan(9_000);
});

it('reports which desired entries are missing, and when all are there again', async () => {
  await t.want('a', { x: 1, y: 2, z: 3 });
  t.target.held.delete('x');
  t.target.held.set('y', 7);
  t.target.held.set('foreign', 8);
  t.reconciler.recheck();
  await t.round();
  expect(t.losses.slice(t.losses.indexOf('lost x'))).toEqual(['lost x', 'complete']);
});

it('reports since when a desired entry is missing', async () => {
  await t.want('a', { x: 1 });
  expect(t.reconciler.behindMs).toBeUndefined();
  t.target.failNext(...Array.from({ length: 1_000 }, () => 'loseRequest' as const));
  t.desired.set('a', new Map([['x', 2]]));
  t.reconciler.poke();
  t.pass(6_000);
  t.reconciler.poke();
  expect(t.reconciler.behindMs).toBe(6_000);
  t.target.failNoMore();
  await t.round();
  expect(t.reconciler.behindMs).toBeUndefined();
});

it('waits fifty times the duration of an observation, from four seconds to a minute', () => {
  expect([1, 100, 1_000, 5_000].map(restMs)).toEqual([4_000, 5_000, 50_000, 60_000]);
});

it('counts the interval from the end of the last observation of any kind', () => {
  const due = (ageMs: number, tookMs: number) => untilDueMs({ lastCheck: { ageMs, tookMs } });
  expect([due(0, 0), due(3_000, 0), due(4_000, 0), due(1_500, 1_000), due(9_000, 100)]).toEqual([4_000, 1_000, 0, 49_500, 0]);
  expect(untilDueMs({ lastCheck: undefined })).toBeGreaterThan(0);
});

it('observes once a target that it has to wait for, though it is another one by then', async () => {
  await t.end();
  t = reconcilerScene();
  const connected = Promise.withResolvers<void>();
  t.target.ready = () => connected.promise;
  t.start();
  const wanted = t.want('a', { x: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  expect(t.target.log).toEqual([]);
  connected.resolve();
  t.reconciler.invalidate(); // like a listener that hears of a new connection
  await wanted;
  expect(t.target.log).toEqual(['observe', 'apply x']);
});

it('reports to a caller that gives up that the target was never available', async () => {
  await t.end();
  t = reconcilerScene();
  t.target.ready = async (signal) => void (await once(signal, 'abort'));
  t.start();
  await new Promise((resolve) => setImmediate(resolve));
  await expect(t.reconciler.realized(0, AbortSignal.abort())).rejects.toThrow(
    'waiting for fake: [UNAVAILABLE] fake cannot be observed yet',
  );
  expect(t.reconciler.lastError).toBeUndefined();
});

it('does not wait for a target whose state is known', async () => {
  await t.want('a', { x: 1 });
  t.target.ready = () => Promise.reject(new Error('asked'));
  await t.want('a', { x: 2 });
  expect(t.target.held).toEqual(new Map([['x', 2]]));
});

it('executes allowed removals in a round, without an observation', async () => {
  await t.end();
  t = reconcilerScene();
  t.target.held.set('left', 1);
  t.start();
  await t.want('a', { x: 1 });
  expect(t.target.held.has('left')).toBe(true);
  t.reconciler.allowRemovals();
  await t.reconciler.roundMade(t.deadline());
  expect([t.target.held.has('left'), t.target.log]).toEqual([false, ['observe', 'apply x', 'apply -left']]);
});

it('does not count the round in progress', async () => {
  await t.want('a', { x: 1 });
  const held = Promise.withResolvers<void>();
  const apply = t.target.apply.bind(t.target);
  let made = false;
  t.target.apply = async (plan) => {
    if (plan.put.has('y')) await held.promise;
    await apply(plan);
  };
  const wanted = t.want('a', { y: 1 });
  await new Promise((resolve) => setImmediate(resolve));
  const round = t.reconciler.roundMade(t.deadline()).then(() => (made = true));
  t.target.held.set('z', 1);
  held.resolve();
  await wanted;
  expect(made).toBe(false);
  await round;
});
