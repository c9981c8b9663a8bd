import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { DesiredState } from './desired-state.ts';
import { Refusals } from './refusals.ts';
import { RepairLedger } from './repair-ledger.ts';
import { Retries } from './retries.ts';

let stop: AbortController;

beforeEach(() => {
  stop = new AbortController();
});
afterEach(() => stop.abort());

function setUp() {
  const clock = { nowMs: 0 };
  const now = () => clock.nowMs;
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b });
  for (const owner of ['a', 'b']) desired.set(owner, new Map([`${owner}1`, `${owner}2`].map((key) => [key, 1])));
  const refusals = new Refusals();
  const writer = {
    isBackedOff: (key: string, nowMs: number) => refusals.isBackedOff(key.slice(0, 1), nowMs),
    nextMs: () => refusals.nextMs(),
    refusals: () => refusals.list(),
  };
  const repairs = new RepairLedger<string>(now);
  const tried: (readonly string[])[] = [];
  const reported = Promise.withResolvers<void>();
  const due = (keys: Iterable<string>): void => {
    tried.push([...keys]);
    reported.resolve();
  };
  return { clock, refusals, repairs, tried, reported: reported.promise, retries: new Retries({ desired, now, repairs, writer, due }) };
}

it('skips refused owners and contested entries, and retries all of them when the first back-off ends', async () => {
  const { clock, refusals, repairs, tried, reported, retries } = setUp();
  for (let change = 0; change < 6; change++) repairs.note(['b1'], 100); // the sixth waits for a second
  refusals.note('a', new SeineError('REFUSED', 'no'), 0);
  expect(['a1', 'a2', 'b1', 'b2'].map((key) => retries.isBackedOff(key, clock.nowMs))).toEqual([true, true, true, false]);
  clock.nowMs = 995;
  retries.arm(stop.signal);
  retries.arm(stop.signal);
  await reported;
  await nextTurn(); // a second timer would have fired with the first
  expect(tried).toEqual([['a1', 'a2', 'b1']]);
});

it('does not wait for a back-off that ends later than an earlier one', async () => {
  const { clock, refusals, repairs, tried, reported, retries } = setUp();
  refusals.note('a', new SeineError('REFUSED', 'no'), 0);
  retries.arm(stop.signal);
  for (let change = 0; change < 6; change++) repairs.note(['b1'], 100);
  clock.nowMs = 995;
  retries.arm(stop.signal);
  await reported;
  expect(tried).toEqual([['a1', 'a2', 'b1']]);
});
