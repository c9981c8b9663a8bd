import { expect, it } from 'vitest';
import { Turn } from './turn.ts';

it('lets one caller work at a time, in order, also after one that failed', async () => {
  const turn = new Turn<string[]>([]);
  const first = Promise.withResolvers<void>();
  const works = [
    turn.take(async (log) => {
      log.push('first begins');
      await first.promise;
      log.push('first ends');
      throw new Error('first');
    }),
    turn.take(async (log) => void log.push('second')),
  ];
  first.resolve();
  const results = await Promise.allSettled(works);
  expect(results.map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
  expect(turn.thing).toEqual(['first begins', 'first ends', 'second']);
});
