import { beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import type { SuspendedTarget } from './suspension-records.ts';
import { Suspensions } from './suspensions.ts';

const pod: SuspendedTarget = { what: 'pod', name: 'shop/db' };
const minute = { seconds: 60, reason: 'the payment provider moved' };

let clock = { wall: 1_000_000, boot: 5_000, id: 'this' };
let onDisk: string | undefined;
let isDiskFull = false;
let events: string[] = [];

beforeEach(() => {
  clock = { wall: 1_000_000, boot: 5_000, id: 'this' };
  onDisk = undefined;
  isDiskFull = false;
  events = [];
});

function agent(): Suspensions {
  return new Suspensions({
    file: {
      read: () => onDisk,
      write: async (text) => {
        if (isDiskFull) throw new Error('ENOSPC');
        onDisk = text;
      },
    },
    clock: { wallMs: () => clock.wall, bootMs: () => clock.boot, bootId: clock.id },
    postEvent: (reason, message, type) => events.push(`${type} ${reason} ${message}`),
    log: silentLog,
  });
}

const pass = (ms: number, of: 'both' | 'wall' | 'boot' = 'both'): void => {
  if (of !== 'boot') clock.wall += ms;
  if (of !== 'wall') clock.boot += ms;
};

describe('a suspension', () => {
  it('applies to its pod, to pods of its namespace, or to all, and is reported', async () => {
    const suspensions = agent();
    expect(await suspensions.suspend(pod, minute)).toBe(true);
    expect([suspensions.of('shop/db')?.reason, suspensions.of('shop/db2')]).toEqual([minute.reason, undefined]);
    await suspensions.suspend({ what: 'namespace', name: 'shop' }, minute);
    expect([suspensions.of('shop/db2')?.what, suspensions.of('shopping/db')]).toEqual(['namespace', undefined]);
    await suspensions.suspend({ what: 'node', name: '' }, minute);
    expect(suspensions.of('shopping/db')?.what).toBe('node');
    expect(events[0]).toBe(
      'Warning PolicySuspended policies are suspended for pod shop/db until 1970-01-01T00:17:40.000Z: the payment provider moved',
    );
  });

  it('ends on request, which reports whether there was one', async () => {
    const suspensions = agent();
    await suspensions.suspend(pod, minute);
    expect(await suspensions.resume({ what: 'namespace', name: 'shop' })).toMatchObject({ was: false });
    expect(await suspensions.resume(pod)).toEqual({ was: true, isRemembered: true });
    expect([suspensions.of('shop/db'), agent().of('shop/db')]).toEqual([undefined, undefined]);
    expect(events.at(-1)).toBe('Normal PolicyResumed NetworkPolicy is in force again for pod shop/db: requested by an operator');
  });

  it('outlives the agent, with its end, and ends while no agent runs', async () => {
    await agent().suspend(pod, minute);
    pass(59_000);
    expect(agent().of('shop/db')).toMatchObject({ untilMs: 1_060_000 });
    pass(1_000);
    const late = agent();
    expect([late.of('shop/db'), late.endedAway('shop/db'), late.endedAway('shop/web')]).toEqual([undefined, true, false]);
  });

  it.each<[string, () => void]>([
    ['set back', () => pass(60_000, 'boot')],
    ['set forward', () => pass(60_000, 'wall')],
    [
      'set back to before it began, after a start of the machine',
      () => {
        clock = { wall: 999_999, boot: 1, id: 'next' };
      },
    ],
  ])('is never longer than requested if the clock is %s', async (_, jump) => {
    await agent().suspend(pod, minute);
    jump();
    expect(agent().of('shop/db')).toBeUndefined();
  });

  it('continues after a reboot of the host', async () => {
    await agent().suspend(pod, minute);
    clock = { wall: clock.wall + 30_000, boot: 1, id: 'next' };
    expect(agent().of('shop/db')).toBeDefined();
  });

  it('applies even if the disk rejects it, and then reports that it does not outlive the agent', async () => {
    isDiskFull = true;
    const suspensions = agent();
    expect(await suspensions.suspend(pod, minute)).toBe(false);
    expect(suspensions.of('shop/db')).toBeDefined();
  });

  it.each<[SuspendedTarget, number, string]>([
    [pod, 0, 'x'],
    [pod, 86_401, 'x'],
    [pod, 1.5, 'x'],
    [pod, 60, ' '],
    [pod, 60, 'two\nlines'],
    [pod, 60, 'x'.repeat(201)],
    [{ what: 'pod', name: 'db' }, 60, 'x'],
    [{ what: 'pod', name: 'shop/__proto__' }, 60, 'x'],
    [{ what: 'namespace', name: '' }, 60, 'x'],
    [{ what: 'node', name: 'other' }, 60, 'x'],
  ])('is rejected for %j %d %j', async (target, seconds, reason) => {
    await expect(agent().suspend(target, { seconds, reason })).rejects.toMatchObject({ code: 'INVALID_INPUT' });
  });

  it('is limited to a hundred', async () => {
    const suspensions = agent();
    for (let at = 0; at < 100; at++) await suspensions.suspend({ what: 'pod', name: `shop/web-${at}` }, minute);
    await expect(suspensions.suspend(pod, minute)).rejects.toThrow('there are 100');
    await suspensions.suspend({ what: 'pod', name: 'shop/web-7' }, minute);
    expect(agent().list()).toHaveLength(100);
  });
});

const good = { what: 'pod', name: 'shop/db', reason: 'x', sinceMs: 1_000_000, untilMs: 1_060_000, bootEndMs: 65_000, bootId: 'this' };

describe('a suspension on disk', () => {
  it.each([
    '',
    '{',
    'null',
    '[]',
    '{"version":2,"suspensions":[]}',
    '{"version":1,"suspensions":{}}',
    '[[[[',
    '{"__proto__":{"version":1}}',
  ])('suspends nothing if it is %j', (text) => {
    onDisk = text;
    expect(agent().list()).toEqual([]);
  });

  it.each([
    null,
    7,
    { ...good, what: 'cluster' },
    { ...good, name: 7 },
    { ...good, name: '../../x' },
    { ...good, untilMs: '9999999' },
    { ...good, untilMs: 1e300 },
    { ...good, untilMs: good.sinceMs + 90_000_000 },
    { ...good, reason: 'two\nlines' },
    { ...good, bootId: undefined },
  ])('is ignored if it is %j', (entry) => {
    onDisk = JSON.stringify({ version: 1, suspensions: [entry, good] });
    expect([agent().list().length, agent().of('shop/db')]).toEqual([1, good]);
  });
});
