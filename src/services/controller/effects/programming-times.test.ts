import { expect, it } from 'vitest';
import { ProgrammingTimes } from './programming-times.ts';

function setUp() {
  const seen: [string, number][] = [];
  const time = { nowMs: 0, clockMs: Date.UTC(2026, 0, 1) };
  const times = new ProgrammingTimes({
    observe: (name, _, value) => seen.push([name, Math.round(value * 1_000)]),
    nowMs: () => time.nowMs,
    clockMs: () => time.clockMs,
  });
  const pass = (ms: number): void => {
    time.nowMs += ms;
    time.clockMs += ms;
  };
  return { times, seen, pass, stamp: () => new Date(time.clockMs).toISOString() };
}

const sli = 'network_programming_duration_seconds';
const own = 'service_programming_duration_seconds';

it('measures from the event, and from its triggers, each trigger once', async () => {
  const { times, seen, pass, stamp } = setUp();
  const trigger = stamp();
  pass(40);
  let arrival = times.arrived(undefined, trigger);
  arrival = times.arrived(arrival, trigger);
  pass(5);
  times.programmed('a/b', { arrival, occasion: 'news' }, Promise.resolve());
  expect(times.of('a/b')?.tookMs).toBeUndefined();
  await Promise.resolve();
  expect(times.of('a/b')?.tookMs).toBe(5);
  times.programmed('a/b', { arrival: times.arrived(undefined, trigger), occasion: 'news' }, Promise.resolve());
  await Promise.resolve();
  expect(seen).toEqual([
    [own, 5],
    [sli, 45],
    [own, 0],
  ]);
});

it('measures nothing of a start, nothing older than the agent, and no implausible times', async () => {
  const { times, seen, pass, stamp } = setUp();
  const start = { arrival: times.arrived(undefined, stamp()), occasion: 'start' } as const;
  times.programmed('a/b', start, Promise.resolve());
  await Promise.resolve();
  expect(seen).toEqual([]);
  pass(11 * 60_000);
  for (const trigger of ['2020-01-01T00:00:00Z', 'yesterday', '2026-01-01T00:00:01Z', '2099-01-01T00:00:00Z']) {
    times.programmed('a/b', { arrival: times.arrived(undefined, trigger), occasion: 'news' }, Promise.resolve());
    await Promise.resolve();
  }
  expect(seen.map(([name]) => name)).toEqual([own, own, own, own]);
});

it('drops a deleted Service', async () => {
  const { times } = setUp();
  times.programmed('a/b', { arrival: times.arrived(undefined, undefined), occasion: 'news' }, Promise.resolve());
  times.forget('a/b');
  await Promise.resolve();
  expect(times.of('a/b')).toBeUndefined();
});
