import { expect, it } from 'vitest';
import { Waiters } from './waiters.ts';

const patience = new AbortController().signal;

it('resolves immediately with a present value', async () => {
  expect(await new Waiters('x').wait(() => 7, patience)).toBe(7);
});

it('checks again when poked, and resolves only satisfied callers', async () => {
  const waiters = new Waiters('x');
  let level = 0;
  const low = waiters.wait(() => (level >= 1 ? 'low' : undefined), patience);
  const high = waiters.wait(() => (level >= 2 ? 'high' : undefined), patience);
  level = 1;
  waiters.poke();
  expect(await low).toBe('low');
  expect(waiters.size).toBe(1);
  level = 2;
  waiters.poke();
  expect(await high).toBe('high');
  expect(waiters.size).toBe(0);
});

it('rejects with what a check throws', async () => {
  const waiters = new Waiters('x');
  let broken = false;
  const waiting = waiters.wait(() => {
    if (broken) throw new RangeError('broken');
    return undefined;
  }, patience);
  broken = true;
  waiters.poke();
  await expect(waiting).rejects.toThrow('broken');
  expect(waiters.size).toBe(0);
});

it('ends with the signal, before or while waiting', async () => {
  const waiters = new Waiters('the tide');
  await expect(waiters.wait(() => 1, AbortSignal.abort())).rejects.toThrow('[CANCELLED] no longer waiting for the tide');
  const stop = new AbortController();
  const waiting = waiters.wait(() => undefined, stop.signal);
  stop.abort();
  await expect(waiting).rejects.toMatchObject({ code: 'CANCELLED' });
  expect(waiters.size).toBe(0);
});
