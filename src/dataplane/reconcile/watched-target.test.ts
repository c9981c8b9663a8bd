import { beforeEach, expect, it } from 'vitest';
import { FakeTarget } from './testing/fake-target.ts';
import { WatchedTarget } from './watched-target.ts';

const signal = AbortSignal.timeout(5_000);
const nothing = new Set<string>();

let real = new FakeTarget<string, number>();
let watched = new WatchedTarget(real, (a, b) => a === b);
const actual = () =>
  new Map([
    ['x', 1],
    ['y', 2],
  ]);

beforeEach(() => {
  real = new FakeTarget();
  real.held = actual();
  watched = new WatchedTarget(real, (a, b) => a === b);
});

it.each([
  ['nothing', () => {}, false],
  ['another value', () => real.held.set('x', 9), true],
  ['an entry too many', () => real.held.set('z', 9), true],
  ['an entry too few', () => real.held.delete('y'), true],
] as const)('sees %s', async (_what, change, differs) => {
  change();
  expect(await watched.differsFrom(actual(), signal)).toBe(differs);
});

it('omits entries written during the observation, and only those', async () => {
  const known = actual();
  const observe = real.observe.bind(real);
  real.observe = async () => {
    const seen = await observe();
    await watched.apply({ put: new Map([['z', 3]]), remove: new Set(['y']) }, signal);
    known.set('z', 3);
    known.delete('y');
    return seen;
  };
  expect(await watched.differsFrom(known, signal)).toBe(false);
  real.held.delete('x');
  expect(await watched.differsFrom(known, signal)).toBe(true);
});

it('omits entries whose write began before the observation', async () => {
  const half = Promise.withResolvers<void>();
  const apply = real.apply.bind(real);
  real.apply = async (plan) => {
    real.held.set('x', 9); // half done
    await half.promise;
    await apply(plan);
  };
  const writing = watched.apply({ put: new Map([['x', 1]]), remove: nothing }, signal);
  expect(await watched.differsFrom(actual(), signal)).toBe(false);
  half.resolve();
  await writing;
  real.held.set('x', 9);
  expect(await watched.differsFrom(actual(), signal)).toBe(true);
});

it('drops the record of writes with the observation, also a failed one', async () => {
  const observe = real.observe.bind(real);
  real.observe = async () => {
    await watched.apply({ put: new Map([['x', 1]]), remove: nothing }, signal);
    throw new Error('away');
  };
  await expect(watched.differsFrom(actual(), signal)).rejects.toThrow('away');
  real.observe = observe;
  real.held.set('x', 9);
  expect(await watched.differsFrom(actual(), signal)).toBe(true);
});

it('writes nothing while another agent has the bridge, and can still be observed', async () => {
  let reason: string | undefined = 'agent 42 has the bridge';
  const guarded = new WatchedTarget(
    real,
    (a, b) => a === b,
    () => reason,
  );
  const plan = { put: new Map([['blocked', 1]]), remove: nothing };
  await expect(guarded.apply(plan, signal)).rejects.toMatchObject({ code: 'UNAVAILABLE', message: expect.stringContaining('agent 42') });
  expect((await guarded.observe(signal)).has('blocked')).toBe(false);
  reason = undefined;
  await guarded.apply(plan, signal);
  expect((await guarded.observe(signal)).get('blocked')).toBe(1);
});
