import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SeineError } from '../errors/seine-error.ts';
import { mayKeepOldActions, StaleMegaflows } from './stale-megaflows.ts';

let over: AbortController;
/** When they were forgotten (ms since the beginning). */
let forgotten: number[];
let failures: SeineError[];
let version: string | undefined;
let answer: () => Promise<void>;
let megaflows: StaleMegaflows;
let startedMs: number;

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  [over, forgotten, failures, version, answer] = [new AbortController(), [], [], '3.1.0', async () => {}];
  startedMs = performance.now();
  megaflows = new StaleMegaflows({
    runDir: '/nowhere',
    version: async () => version,
    forget: async () => {
      await answer();
      forgotten.push(performance.now() - startedMs);
    },
    forgotten: () => {},
    failed: (error) => failures.push(error),
    now: () => performance.now(),
  });
  void megaflows.run(over.signal);
});

afterEach(() => {
  over.abort();
  vi.useRealTimers();
});

it('forgets a second after the first of many changes, and again ten seconds after that', async () => {
  for (let atMs = 0; atMs < 30_000; atMs += 100) {
    megaflows.changed();
    await vi.advanceTimersByTimeAsync(100);
  }
  expect(forgotten).toEqual([1_000, 11_000, 21_000]);
});

it('forgets at once what was mended, whatever was changed before', async () => {
  megaflows.changed();
  await vi.advanceTimersByTimeAsync(1_500);
  megaflows.changed(); // due in ten seconds
  await vi.advanceTimersByTimeAsync(500);
  megaflows.mended();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(forgotten).toEqual([1_000, 2_000]);
});

it('forgets once more what was changed while it was under way', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  answer = () => promise;
  megaflows.mended();
  await vi.advanceTimersByTimeAsync(10);
  megaflows.mended();
  resolve();
  await vi.advanceTimersByTimeAsync(10);
  expect(forgotten).toHaveLength(2);
});

it('tries again after a switch that does not answer', async () => {
  answer = async () => {
    throw new SeineError('UNAVAILABLE', 'nobody there');
  };
  megaflows.mended();
  await vi.advanceTimersByTimeAsync(4_999);
  answer = async () => {};
  expect([failures.length, forgotten]).toEqual([1, []]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([failures.length, forgotten]).toEqual([1, [5_000]]);
});

it('asks a switch that knows no such command once', async () => {
  answer = async () => {
    throw new SeineError('REFUSED', 'no such command');
  };
  megaflows.mended();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(failures).toHaveLength(1);
});

it('leaves a switch alone that changes what is meant', async () => {
  version = '3.5.0';
  megaflows.mended();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(forgotten).toEqual([]);
});

it('knows which versions keep old actions', () => {
  for (const old of ['2.17.9', '3.1.0', '3.1.2-2', '3.4.9', '', 'Open vSwitch', undefined]) expect(mayKeepOldActions(old)).toBe(true);
  for (const right of ['3.5.0', '3.10.0', '4.0.0']) expect(mayKeepOldActions(right)).toBe(false);
});
