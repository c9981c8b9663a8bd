import { expect, it } from 'vitest';
import { idle, pause } from './pause.ts';

it.each([
  ['pause', pause],
  ['idle', idle],
])('%s ends with its time or with its signal, and never rejects', async (_, wait) => {
  const stop = new AbortController();
  await wait(1, stop.signal);
  const waiting = wait(3_600_000, stop.signal);
  stop.abort();
  await expect(waiting).resolves.toBeUndefined();
  await expect(wait(3_600_000, stop.signal)).resolves.toBeUndefined();
});
