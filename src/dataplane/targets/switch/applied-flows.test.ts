import { expect, it } from 'vitest';
import { AppliedFlows } from './applied-flows.ts';

it('shares one request among callers that wait, and begins it after all of their calls', async () => {
  const ends: (() => void)[] = [];
  const apply = () => new Promise<void>((resolve) => ends.push(resolve));
  const applied = new AppliedFlows({ runDir: '', dataPath: 'netdev', signal: new AbortController().signal, apply });
  const done: string[] = [];
  const wait = (name: string) => applied.whenApplied().then(() => done.push(name));
  const first = wait('first');
  const [second, third] = [wait('second'), wait('third')];
  expect(ends).toHaveLength(1);
  ends[0]?.();
  await first;
  expect(done).toEqual(['first']);
  await expect.poll(() => ends.length).toBe(2);
  ends[1]?.();
  await Promise.all([second, third]);
  const last = wait('last');
  expect(ends).toHaveLength(3);
  ends[2]?.();
  await last;
});

it('continues after a failure', async () => {
  let attempts = 0;
  const apply = async () => {
    if (++attempts === 1) throw new Error('not now');
  };
  const applied = new AppliedFlows({ runDir: '', dataPath: 'system', signal: new AbortController().signal, apply });
  const [first, second] = [applied.whenApplied(), applied.whenApplied()];
  await expect(first).rejects.toThrow('not now');
  await second;
  expect(attempts).toBe(2);
});
