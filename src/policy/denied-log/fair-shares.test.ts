import { expect, it } from 'vitest';
import { FairShares } from './fair-shares.ts';

let nowMs = 0;
const sharesOf = (perSecond: number) => new FairShares({ perSecond, now: () => nowMs });

/** Takes evenly, at these rates, for the given number of seconds. @returns number of successes by name */
function asked(shares: FairShares, rates: Readonly<Record<string, number>>, seconds: number): Record<string, number> {
  const got: Record<string, number> = Object.fromEntries(Object.keys(rates).map((name) => [name, 0]));
  const ticks = 1_000;
  for (let tick = 0; tick < seconds * ticks; tick++) {
    nowMs++;
    for (const [name, rate] of Object.entries(rates))
      for (let n = Math.floor((tick * rate) / ticks); n < Math.floor(((tick + 1) * rate) / ticks); n++)
        if (shares.take(name)) got[name] = (got[name] ?? 0) + 1;
  }
  return got;
}

it('gives everything to a single user, and no more', () => {
  const { a = 0 } = asked(sharesOf(50), { a: 10_000 }, 10);
  expect(a).toBeGreaterThanOrEqual(500);
  expect(a).toBeLessThanOrEqual(560);
});

it('gives small requests in full, whatever others request', () => {
  const { quiet = 0, loud = 0 } = asked(sharesOf(50), { loud: 20_000, quiet: 20 }, 10);
  expect(quiet).toBe(200);
  expect(loud).toBeLessThanOrEqual(50 * 10 + 60);
  expect(loud).toBeGreaterThanOrEqual(240);
});

it('gives each of many users something now and then, and all of them together at most the rate', () => {
  const rates = Object.fromEntries(Array.from({ length: 100 }, (_, at) => [`n${at}`, 100]));
  const got = Object.values(asked(sharesOf(50), rates, 20));
  expect(Math.min(...got)).toBeGreaterThanOrEqual(5);
  expect(got.reduce((sum, each) => sum + each, 0)).toBeLessThanOrEqual(50 * 20 + 2 * 100);
});

it('ignores users that left, and remembers a bounded number', () => {
  const shares = sharesOf(50);
  asked(shares, { gone: 1_000, here: 10 }, 1);
  nowMs += 20_000;
  const { here = 0 } = asked(shares, { here: 1_000 }, 2);
  expect(here).toBeGreaterThanOrEqual(95);
  let taken = 0;
  for (let n = 0; n < 5_000; n++) if (shares.take(`x${n}`)) taken++;
  expect(taken).toBeLessThan(1_025);
});
