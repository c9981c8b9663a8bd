import { expect, it } from 'vitest';
import { ObservedState } from './observed-state.ts';

function setUp() {
  let [nowMs, rings] = [0, 0];
  const observed = new ObservedState<string, number>(
    () => nowMs,
    () => rings++,
  );
  const held = new Map([['x', 1]]);
  return {
    observed: observed,
    held,
    view: () => observed.snapshot(async () => held),
    rings: () => rings,
    pass: (ms: number) => (nowMs += ms),
  };
}

it('observes once, and then remembers until invalidated', async () => {
  const { observed, held, view, rings } = setUp();
  const first = await view();
  expect([first.source, observed.keep(first)]).toEqual(['observed', true]);
  expect([(await view()).source, observed.actual]).toEqual(['remembered', held]);
  observed.recheck();
  expect([rings(), observed.actual, (await view()).source]).toEqual([1, undefined, 'observed']);
});

it('reports the time of the invalidation, and once the last trusted state', async () => {
  const { observed, held, view, pass } = setUp();
  observed.keep(await view());
  pass(5);
  observed.recheck();
  pass(5);
  observed.recheck();
  expect((await view()).invalidatedAtMs).toBe(5);
  expect([observed.takeLastTrusted(), observed.takeLastTrusted()]).toEqual([held, undefined]);
});

it('does not trust the result of a round with an invalidation in between, but keeps it as last trusted', async () => {
  const { observed, held, view } = setUp();
  const round = await view();
  observed.recheck();
  expect([observed.keep(round), observed.actual]).toEqual([true, undefined]);
  expect(observed.takeLastTrusted()).toBe(held);
});

it('keeps nothing of a target that was replaced meanwhile', async () => {
  const { observed, view } = setUp();
  const round = await view();
  observed.replaced();
  expect([observed.stillOf(round), observed.keep(round), observed.takeLastTrusted()]).toEqual([false, false, undefined]);
});

it('defers rechecks while paused, but neither replacements nor failed rounds', async () => {
  const { observed, view, rings } = setUp();
  observed.keep(await view());
  observed.pause();
  observed.recheck();
  observed.recheck();
  expect([rings(), observed.invalidations]).toEqual([0, 0]);
  observed.resume();
  observed.resume();
  expect([rings(), observed.invalidations]).toEqual([1, 1]);
  observed.pause();
  observed.replaced();
  observed.invalidate();
  expect(rings()).toBe(3);
});

it('observes again after a failed round, which is not a foreign change', async () => {
  const { observed, view, rings } = setUp();
  observed.keep(await view());
  observed.forget();
  expect([rings(), (await view()).source, observed.takeLastTrusted()]).toEqual([0, 'observed', undefined]);
});

it('keeps an invalidation whose observation failed', async () => {
  const { observed, held, view } = setUp();
  observed.keep(await view());
  observed.recheck();
  await expect(observed.snapshot(() => Promise.reject(new Error('away')))).rejects.toThrow('away');
  expect((await view()).invalidatedAtMs).toBe(0);
  expect(observed.takeLastTrusted()).toBe(held);
});
