import { expect, it } from 'vitest';
import { type JudgedSource, whenInStep } from './kube-sources.ts';

it('waits until every source is in step at the same moment, though each has been before', async () => {
  const states: JudgedSource['status']['state'][] = ['in step', 'refused'];
  const sources = states.map(
    (_, index): JudgedSource => ({
      replica: { whenSynced: async () => undefined },
      get status() {
        return { state: states[index] ?? 'failing' };
      },
    }),
  );
  let isOver = false;
  const waiting = whenInStep(sources, AbortSignal.timeout(10_000)).then(() => (isOver = true));
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect(isOver).toBe(false);
  states[1] = 'in step';
  await waiting;
});
