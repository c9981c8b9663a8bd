import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import type { FoundProblem } from '../problem.ts';
import { freshnessOf } from './check-deadline.ts';
import type { HealthCheck, HealthCheckResult } from './health-check.ts';
import { HealthChecks } from './health-checks.ts';

const problem: FoundProblem = { kind: 'node', about: 'x', message: 'x is gone' };
let nowMs = 0;
let results: (HealthCheckResult | SeineError)[] = [];
let stop = new AbortController();
let checks = new HealthChecks({ log: silentLog, nowMs: () => nowMs });
let running: Promise<void> | undefined;

/** Check that returns the queued results, and waits for more. */
const check: HealthCheck = {
  name: 'x',
  everyMs: 0,
  run: async (signal) => {
    const next = results.shift();
    if (next === undefined) return await new Promise<never>((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)));
    if (next instanceof SeineError) throw next;
    return next;
  },
};

beforeEach(() => {
  nowMs = 0;
  stop = new AbortController();
  checks = new HealthChecks({ log: silentLog, nowMs: () => nowMs });
});
afterEach(async () => {
  stop.abort();
  await running;
});

async function afterwards(...all: (HealthCheckResult | SeineError)[]): Promise<void> {
  results = all;
  running = checks.follow(check, stop.signal);
  await expect.poll(() => results.length).toBe(0);
}

it('has no result before the first check has ended', async () => {
  await afterwards();
  expect(checks.records().map(freshnessOf)).toEqual(['not yet']);
});

it('returns the findings of the last check, and drops those that it did not find again', async () => {
  await afterwards({ problems: [problem] });
  await expect.poll(() => checks.problems()).toEqual([problem]);
  stop.abort();
  await running;
  stop = new AbortController();
  checks = new HealthChecks({ log: silentLog, nowMs: () => nowMs });
  await afterwards({ problems: [problem] }, { problems: [], repaired: ['x put back'] });
  await expect.poll(() => checks.records()[0]?.repaired).toBe(1);
  expect(checks.problems()).toEqual([]);
});

it('keeps age and findings of the last successful check, and reports persistent failures', async () => {
  const gone = new SeineError('UNAVAILABLE', 'no such folder');
  await afterwards({ problems: [problem] }, gone);
  await expect.poll(() => checks.records()[0]?.lastError).toBe(gone);
  expect(checks.problems()).toEqual([problem]);
  stop.abort();
  await running;
  stop = new AbortController();
  checks = new HealthChecks({ log: silentLog, nowMs: () => nowMs });
  await afterwards({ problems: [] }, gone, gone);
  nowMs = 2_001;
  await expect
    .poll(() => checks.problems())
    .toEqual([{ kind: 'check.failing', about: 'x', message: 'periodic check x fails: no such folder' }]);
  expect(checks.records().map(freshnessOf)).toEqual(['overdue']);
});

it('rethrows a bug', async () => {
  results = [new SeineError('INVARIANT', 'cannot be')];
  running = undefined;
  await expect(checks.follow(check, stop.signal)).rejects.toThrow('cannot be');
});

it('begins a check at once when its settings change, whatever its interval', async () => {
  let runs = 0;
  let changed: () => void = () => undefined;
  const slow: HealthCheck = {
    ...check,
    everyMs: 86_400_000,
    onChange: (checkNow) => void (changed = checkNow),
    run: () => Promise.resolve({ problems: runs++ < 0 ? [problem] : [] }),
  };
  running = checks.follow(slow, stop.signal);
  await expect.poll(() => runs).toBe(1);
  changed();
  await expect.poll(() => runs).toBe(2);
});
