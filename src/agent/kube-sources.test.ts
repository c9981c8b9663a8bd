import { expect, it } from 'vitest';
import { ReplicaStore } from '../kubernetes/client/replica/replica.ts';
import { firstListsSpanMs, type JudgedSource, untilTurnToList, warnOfWatchedPods, whenInStep } from './kube-sources.ts';

it('waits until every source is synced at the same moment, though each was synced before', async () => {
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

it('lists the pods of a large cluster at a random time, and those of a small one immediately', () => {
  expect([3, 5_000, 100_000].map(firstListsSpanMs)).toEqual([3, 5_000, 10_000]);
});

it('does not wait to list pods for nodes that cannot be read', async () => {
  const refused = { replica: { synced: false, size: 0 }, status: { version: '', failures: 1 } };
  await untilTurnToList(refused, 1, AbortSignal.timeout(10_000));
  const aborted = { ...refused, status: { version: '', failures: 0 } };
  await untilTurnToList(aborted, 1, AbortSignal.abort());
});

it('warns while it watches more pods than intended', () => {
  const pods = new ReplicaStore<object>();
  const warnings = new Map<string, readonly string[]>();
  warnOfWatchedPods(pods, 2, warnings);
  const put = (count: number): void => {
    for (let at = 0; at < count; at++) pods.put(`p${at}`, '1', {});
    pods.flush();
  };
  put(2);
  expect(warnings.size).toBe(0);
  put(3);
  expect([...warnings.values()].flat()).toEqual([expect.stringMatching(/^3 pods .* policy.directWatchPods \(2\)/)]);
  pods.remove('p0', '2');
  pods.flush();
  expect(warnings.size).toBe(0);
});
