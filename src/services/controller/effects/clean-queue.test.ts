import { expect, it, vi } from 'vitest';
import { CleanQueue } from './clean-queue.ts';

interface Work {
  readonly name: number;
  /** 0: every item of its own; 1: ten together; 2: all. */
  readonly level: number;
}

const coarser = ({ name, level }: Work): Work | undefined =>
  level === 2 ? undefined : { name: level === 1 ? 0 : Math.floor(name / 10), level: level + 1 };

function queue({ waitingMax, coarserOf = coarser }: { readonly waitingMax: number; readonly coarserOf?: typeof coarser }) {
  const counts = { asked: 0 };
  const stop = new AbortController();
  const passes: (readonly Work[])[] = [];
  const held = new CleanQueue<Work>({
    keyOf: ({ name, level }) => `${level} ${name}`,
    waitingMax,
    coarser: (work) => {
      counts.asked++;
      return coarserOf(work);
    },
    isOutOfDate: () => false,
    pass: (due) => void passes.push(due),
    failed: (thrown) => expect.fail(String(thrown)),
    signal: stop.signal,
  });
  return { held, counts, passes, stop };
}

const later = [60_000];

it('replaces items with coarser ones until there are no longer too many', () => {
  const { held, stop } = queue({ waitingMax: 50 });
  held.add(
    Array.from({ length: 400 }, (_, name) => ({ name, level: 0 })),
    later,
  );
  expect(held.waiting).toBe(40);
  held.add(
    Array.from({ length: 200 }, (_, name) => ({ name: 1_000 + name, level: 0 })),
    later,
  );
  expect(held.waiting).toBe(20 + 1);
  stop.abort();
});

it.each([
  ['that have a coarser form', coarser],
  ['that have none', () => undefined],
] as const)('looks at each of too many items %s a few times, in however many parts they come', (_, coarserOf) => {
  const { held, counts, stop } = queue({ waitingMax: 100, coarserOf });
  for (let name = 0; name < 5_000; name++) held.add([{ name: name * 10, level: 0 }], later);
  expect(counts.asked).toBeLessThan(30_000);
  stop.abort();
});

it('drops an item that another one includes, unless it is due later', async () => {
  const { held, passes, stop } = queue({ waitingMax: 100 });
  held.add([{ name: 3, level: 0 }], [1, 2]);
  held.add([{ name: 0, level: 1 }], [1, 30]);
  held.add([{ name: 4, level: 0 }], [1, 90]);
  await vi.waitFor(() => expect(held.waiting).toBe(0));
  const done = passes.flat().map(({ name, level }) => `${level} ${name}`);
  expect(done.toSorted()).toEqual(['0 4', '0 4', '1 0', '1 0']);
  stop.abort();
});
