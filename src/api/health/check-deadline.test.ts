import { expect, it } from 'vitest';
import { freshnessOf, roundMs } from './check-deadline.ts';

it('is fresh for its interval, twice its duration, and two seconds', () => {
  const check = (ageMs: number) => ({ name: 'bridge', everyMs: 50_000, last: { ageMs, tookMs: 1_000 } });
  expect(roundMs(check(0))).toBe(54_000);
  expect([54_000, 54_001].map((ageMs) => freshnessOf(check(ageMs)))).toEqual(['fresh', 'overdue']);
});

it('is not fresh before the first check', () => {
  expect(freshnessOf({ name: 'bridge', everyMs: 4_000, last: undefined })).toBe('not yet');
});
