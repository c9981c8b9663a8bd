import { expect, it } from 'vitest';
import { RouteChanges } from './route-changes.ts';

function changesAt(whenCompared: (signal: AbortSignal) => Promise<void>) {
  const clock = { ms: 10_000, asked: 0 };
  const changes = new RouteChanges({
    runDir: '',
    now: () => clock.ms,
    whenCompared: (signal) => {
      clock.asked++;
      return whenCompared(signal);
    },
  });
  clock.ms += 1_000;
  return { clock, changes };
}

it('waits until megaflows are compared, if routes changed a moment ago', async () => {
  const compared = Promise.withResolvers<void>();
  const { clock, changes } = changesAt(() => compared.promise);
  await changes.next();
  expect(clock.asked).toBe(0);
  clock.ms += 999;
  let isNext = false;
  const next = changes.next().then(() => (isNext = true));
  await new Promise((resolve) => setImmediate(resolve));
  expect([clock.asked, isNext]).toEqual([1, false]);
  compared.resolve();
  await next;
  clock.ms += 1_000;
  await changes.next();
  expect(clock.asked).toBe(1);
});

it('waits after the start', async () => {
  let asked = 0;
  const changes = new RouteChanges({ runDir: '', now: () => 10_000, whenCompared: async () => void asked++ });
  await changes.next();
  expect(asked).toBe(1);
});

it('waits after a change of flows too', async () => {
  const { clock, changes } = changesAt(() => Promise.resolve());
  changes.flowsChanged();
  await changes.next();
  expect(clock.asked).toBe(1);
});

it('does not wait for a daemon that does not answer', async () => {
  const { clock, changes } = changesAt(() => Promise.reject(new Error('connect ENOENT')));
  await changes.next();
  await changes.next();
  expect(clock.asked).toBe(1);
});

it('does not wait longer than a second for one that hangs', async () => {
  const { clock, changes } = changesAt(
    (signal) => new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
  );
  await changes.next();
  await changes.next();
  expect(clock.asked).toBe(1);
});
