import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { mayKeepOldActions, StaleMegaflows } from './stale-megaflows.ts';

let over: AbortController;
/** Times of purges (ms since the beginning). */
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

const changes = async (untilMs: number): Promise<void> => {
  for (let atMs = 0; atMs < untilMs; atMs += 100) {
    megaflows.changed();
    await vi.advanceTimersByTimeAsync(100);
  }
};
const takes = (ms: number) => () => new Promise<void>((resolve) => setTimeout(resolve, ms));

it('purges 100 ms after the first of many changes, and again 250 ms after that while a purge is fast', async () => {
  await changes(1_000);
  expect(forgotten).toEqual([100, 350, 600, 850]);
});

it('purges soon after each change at one a second, while there are few megaflows', async () => {
  answer = takes(4);
  const waits: number[] = [];
  for (let second = 0; second < 20; second++) {
    megaflows.changed();
    await vi.advanceTimersByTimeAsync(1_000);
    waits.push((forgotten.at(-1) ?? Infinity) - second * 1_000);
  }
  expect(Math.max(...waits)).toBeLessThan(500);
});

it('pauses longer the more a purge costs, ten seconds at most', async () => {
  answer = takes(30);
  await changes(10_000);
  const [, , ...later] = forgotten; // the cost of a purge is known from the first one
  expect(later).toHaveLength(3);
  for (const [index, ms] of later.entries()) expect(ms - (forgotten[index + 1] ?? 0)).toBeGreaterThanOrEqual(3_000);
  answer = takes(500);
  await changes(60_000);
  const pauses = forgotten.map((ms, index) => ms - (forgotten[index - 1] ?? 0)).slice(-3);
  for (const ms of pauses) expect(Math.round(ms / 1_000)).toBe(10);
});

it('uses the fastest of the last purges, if one had to wait for the CPU', async () => {
  answer = takes(2);
  await changes(1_000);
  const before = forgotten.length;
  answer = takes(90);
  await changes(500);
  answer = takes(2);
  await changes(1_000);
  expect(forgotten.length - before).toBeGreaterThanOrEqual(4);
});

it('purges immediately after a repair, whatever was changed before', async () => {
  megaflows.changed();
  await vi.advanceTimersByTimeAsync(150);
  megaflows.changed(); // due after the pause
  await vi.advanceTimersByTimeAsync(50);
  megaflows.repaired();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(forgotten).toEqual([100, 200]);
});

it('purges again for changes during a purge', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  answer = () => promise;
  megaflows.repaired();
  await vi.advanceTimersByTimeAsync(10);
  megaflows.repaired();
  resolve();
  await vi.advanceTimersByTimeAsync(10);
  expect(forgotten).toHaveLength(2);
});

it('retries after OVS did not answer', async () => {
  answer = async () => {
    throw new SeineError('UNAVAILABLE', 'no answer');
  };
  megaflows.repaired();
  await vi.advanceTimersByTimeAsync(4_999);
  answer = async () => {};
  expect([failures.length, forgotten]).toEqual([1, []]);
  await vi.advanceTimersByTimeAsync(60_000);
  expect([failures.length, forgotten]).toEqual([1, [5_000]]);
});

it('calls OVS without the command once', async () => {
  answer = async () => {
    throw new SeineError('REFUSED', 'no such command');
  };
  megaflows.repaired();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(failures).toHaveLength(1);
});

it('does not purge an OVS that revalidates actions', async () => {
  version = '3.5.0';
  megaflows.repaired();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(forgotten).toEqual([]);
});

it('recognises versions that keep old actions', () => {
  for (const old of ['2.17.9', '3.1.0', '3.1.2-2', '3.4.9', '', 'Open vSwitch', undefined]) expect(mayKeepOldActions(old)).toBe(true);
  for (const right of ['3.5.0', '3.10.0', '4.0.0']) expect(mayKeepOldActions(right)).toBe(false);
});
