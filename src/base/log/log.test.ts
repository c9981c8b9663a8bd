import { afterEach, describe, expect, it, vi } from 'vitest';
import { LineRing } from './line-ring.ts';
import { createLogTo, silentLog } from './log.ts';
import { Repeats } from './repeats.ts';

let nowMs = 0;

function recording(level: Parameters<typeof createLogTo>[0] = 'info') {
  const lines: Record<string, unknown>[] = [];
  nowMs = 0;
  const log = createLogTo(
    level,
    (line) => void lines.push(JSON.parse(line)),
    () => nowMs,
  );
  return { log, lines };
}

afterEach(() => void vi.useRealTimers());

describe('the level of a log', () => {
  it('can be changed while it runs, also for existing children', () => {
    const { log, lines } = recording();
    const child = log.child({ part: 'bridge' });
    child.debug('round');
    log.control.set('debug');
    child.debug('round');
    log.control.set('error');
    child.warn('hm');
    child.error('no');
    expect(lines.map(({ level, msg, part }) => [level, msg, part])).toEqual([
      ['debug', 'round', 'bridge'],
      ['error', 'no', 'bridge'],
    ]);
  });

  it('is the configured one again when the time is over', () => {
    vi.useFakeTimers();
    const { log } = recording();
    log.control.set('debug', 60);
    expect([log.control.level, log.control.secondsLeft]).toEqual(['debug', 60]);
    vi.advanceTimersByTime(59_000);
    expect([log.control.level, log.control.secondsLeft]).toEqual(['debug', 1]);
    vi.advanceTimersByTime(1_000);
    expect([log.control.level, log.control.secondsLeft]).toEqual(['info', undefined]);
  });

  it('set again is not reverted by the end of the earlier time', () => {
    vi.useFakeTimers();
    const { log } = recording();
    log.control.set('debug', 60);
    log.control.set('debug');
    vi.advanceTimersByTime(120_000);
    expect(log.control.level).toBe('debug');
  });
});

describe('a repeated failure', () => {
  it('is logged immediately, then at growing intervals with a count, and its end once', () => {
    const { log, lines } = recording();
    for (nowMs = 0; nowMs <= 120_000; nowMs += 500) log.failing('ovsdb', 'cannot be reached', { cause: 'ECONNREFUSED' });
    log.working('ovsdb');
    log.working('ovsdb');
    expect(lines.map(({ msg, times, seconds, failures }) => [msg, times ?? failures, seconds])).toEqual([
      ['cannot be reached', undefined, undefined],
      ['cannot be reached', 11, 5],
      ['cannot be reached', 31, 15],
      ['cannot be reached', 71, 35],
      ['cannot be reached', 151, 75],
      ['works again', 241, 121],
    ]);
    expect(lines.at(-1)).toMatchObject({ level: 'info', what: 'ovsdb' });
  });

  it('is logged immediately for another cause, and not for alternating causes', () => {
    const { log, lines } = recording();
    for (let at = 0; at < 100; at++) log.failing('x', 'fails', { cause: at % 2 === 0 ? 'a' : 'b' });
    expect(lines.map(({ cause }) => cause)).toEqual(['a', 'b']);
  });

  it('after a success, or a long time, is logged again', () => {
    const repeats = new Repeats(() => nowMs);
    nowMs = 0;
    expect(repeats.failed('x', 'a')?.times).toBe(1);
    expect(repeats.failed('x', 'a')).toBeUndefined();
    expect(repeats.worked('x')).toEqual({ times: 2, seconds: 0 });
    expect(repeats.failed('x', 'a')?.times).toBe(1);
    nowMs = 16 * 60_000;
    expect(repeats.failed('x', 'a')?.times).toBe(1);
  });

  it('is separate from others, of a child and its parent by key only, and remembered for at most a thousand keys', () => {
    const { log, lines } = recording();
    log.failing('a', 'fails', { cause: 'x' });
    log.child({ of: 'child' }).failing('b', 'fails', { cause: 'x' });
    log.child({ of: 'child' }).failing('a', 'fails', { cause: 'x' });
    expect(lines).toHaveLength(2);
    const repeats = new Repeats(() => nowMs);
    for (let at = 0; at < 5_000; at++) repeats.failed(`${at}`, 'x');
    expect(repeats.worked('0')).toBeUndefined();
    expect(repeats.worked('4999')).toEqual({ times: 1, seconds: 0 });
  });

  it('writes nothing in a silent log', () => {
    silentLog.child({}).failing('a', 'fails', { cause: 'x' });
    silentLog.working('a');
  });
});

describe('the last lines', () => {
  it('are kept, as they were written, up to a maximum number', () => {
    const { log } = recording();
    log.info('first', { pod: 'default/a' });
    expect(JSON.parse(log.control.ring.text())).toMatchObject({ level: 'info', msg: 'first', pod: 'default/a' });
    const ring = new LineRing();
    for (let at = 0; at < 12_000; at++) ring.push(`${at}\n`);
    expect(ring.text().split('\n').slice(0, 2)).toEqual(['7000', '7001']);
    expect(ring.text().endsWith('11999\n')).toBe(true);
    expect(ring.dropped).toBe(7_000);
  });

  it('are bounded in characters as well, also a single line', () => {
    const ring = new LineRing();
    for (let at = 0; at < 1_000; at++) ring.push(`${'x'.repeat(100_000)}\n`);
    expect(ring.text().length).toBeLessThanOrEqual(2 * 1024 * 1024);
    expect(ring.text().split('\n')[0]).toHaveLength(16 * 1024);
  });
});
