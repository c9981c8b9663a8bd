import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { Debouncer } from './debouncer.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function ringing(restMs = 0) {
  const calls: number[] = [];
  const stop = new AbortController();
  const startedMs = performance.now();
  const debouncer = new Debouncer({ waitMs: 20, restMs: () => restMs }, () => calls.push(performance.now() - startedMs), stop.signal);
  const flood = (forMs: number): void => {
    for (let passed = 0; passed < forMs; passed += 5) {
      debouncer.ring();
      vi.advanceTimersByTime(5);
    }
  };
  return { debouncer: debouncer, calls, stop, flood };
}

it('calls once after many signals', () => {
  const { calls, flood } = ringing();
  flood(50);
  vi.advanceTimersByTime(1_000);
  expect(calls).toEqual([65]);
});

it('does not wait for silence forever', () => {
  const { calls, flood } = ringing();
  flood(1_000);
  expect(calls).toEqual([200, 400, 600, 800, 1_000]);
});

it('pauses after a call as long as configured, and loses no signal', () => {
  const { debouncer, calls, flood } = ringing(500);
  flood(1_000);
  expect(calls).toEqual([200, 700]);
  vi.advanceTimersByTime(1_000);
  expect(calls).toEqual([200, 700, 1_200]);
  vi.advanceTimersByTime(1_000);
  debouncer.ring();
  vi.advanceTimersByTime(20);
  expect(calls.at(-1)).toBe(3_020);
});

it('is silent after the signal', () => {
  const { debouncer: quiet, calls, stop } = ringing();
  quiet.ring();
  stop.abort();
  quiet.ring();
  vi.advanceTimersByTime(1_000);
  expect(calls).toEqual([]);
});

it('is not delayed by the pause after a call if a signal is urgent', () => {
  const { debouncer, calls, flood } = ringing(500);
  flood(1_000);
  expect(calls).toEqual([200, 700]);
  debouncer.ring('urgent');
  vi.advanceTimersByTime(1_000);
  expect(calls).toEqual([200, 700, 1_000]);
  debouncer.ring();
  vi.advanceTimersByTime(10);
  expect(calls).toEqual([200, 700, 1_000]);
});
