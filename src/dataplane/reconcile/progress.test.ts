import { expect, it } from 'vitest';
import { Progress } from './progress.ts';

it('lets other work run while it looks at many owners', async () => {
  const progress = new Progress('bridge', () => undefined);
  let turns = 0;
  const other = setInterval(() => turns++, 0);
  const slow = (): boolean => {
    for (const endMs = performance.now() + 1; performance.now() < endMs; );
    return true;
  };
  await progress.untilAll(
    Array.from({ length: 100 }, (_, at) => `pod/default/p${at}`),
    slow,
    new AbortController().signal,
  );
  clearInterval(other);
  expect(turns).toBeGreaterThan(0);
});
