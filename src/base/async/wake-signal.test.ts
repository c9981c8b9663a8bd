import { expect, it } from 'vitest';
import { Doorbell } from './wake-signal.ts';

it('remembers a signal without a waiter, and merges ten of them', async () => {
  const bell = new Doorbell();
  for (let ring = 0; ring < 10; ring++) bell.ring();
  await bell.wait();
  const late = new AbortController();
  let over = false;
  const waiting = bell.wait(late.signal).then(() => (over = true));
  await Promise.resolve();
  expect(over).toBe(false);
  late.abort();
  await waiting;
});

it('ends a wait with the abort signal, and leaves the next signal to the next wait', async () => {
  const bell = new Doorbell();
  await bell.wait(AbortSignal.abort());
  const stop = new AbortController();
  const waiting = bell.wait(stop.signal);
  stop.abort();
  await waiting;
  bell.ring();
  await bell.wait(new AbortController().signal);
});
