import { expect, it, vi } from 'vitest';
import { SeineError } from '../../base/errors/seine-error.ts';
import { silentLog } from '../../base/log/log.ts';
import { OwnAnnotations } from './own-annotations.ts';

/** Node object with a watch. */
function nodeWith(first: Readonly<Record<string, string>> | undefined) {
  let [present, failures, clock] = [first, 0, 0];
  const listeners = new Set<() => void>();
  const writes: Readonly<Record<string, string | null>>[] = [];
  const show = (annotations: Readonly<Record<string, string>>): void => {
    present = annotations;
    for (const listener of listeners) listener();
  };
  const own = new OwnAnnotations({
    present: () => present,
    write: async (annotations) => {
      writes.push(annotations);
      if (failures-- > 0) throw new SeineError('UNAVAILABLE', 'no API server');
      const all = { ...present, ...annotations };
      show(Object.fromEntries(Object.entries(all).flatMap(([key, value]) => (value === null ? [] : [[key, value]]))));
    },
    subscribe: (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    log: silentLog,
    pauses: { first: 1, most: 2 },
    now: () => ++clock,
  });
  const stop = new AbortController();
  const running = own.run(stop.signal);
  const end = async () => {
    stop.abort();
    await running;
  };
  return { own, writes, show, fail: (times: number) => void (failures = times), present: () => present, end };
}

it('writes annotations that the object does not have, and removes those that it shall not have', async () => {
  const { own, writes, present, end } = nodeWith({ other: 'kept', gone: 'x' });
  own.want('a', '1');
  own.want('gone', undefined);
  await vi.waitFor(() => expect(present()).toEqual({ other: 'kept', a: '1' }));
  expect(own.writtenSince('a')).toBeGreaterThan(0);
  await end();
  expect(writes).toEqual([{ a: '1', gone: null }]);
});

it('writes nothing if the object has the annotations already', async () => {
  const { own, writes, end } = nodeWith({ a: '1' });
  own.want('a', '1');
  own.want('b', undefined);
  expect(own.writtenSince('a')).toBe(1);
  await end();
  expect(writes).toEqual([]);
});

it('repeats a failed write, and corrects a change of another program', async () => {
  const { own, writes, fail, show, present, end } = nodeWith({});
  fail(3);
  own.want('a', '1');
  await vi.waitFor(() => expect(present()).toEqual({ a: '1' }));
  expect(writes).toHaveLength(4);
  show({ a: 'forged' });
  expect(own.writtenSince('a')).toBeUndefined();
  await vi.waitFor(() => expect(present()).toEqual({ a: '1' }));
  await end();
});

it('waits while the object is unknown, and notifies once it has the desired value', async () => {
  const { own, writes, show, end } = nodeWith(undefined);
  const notified = vi.fn();
  own.subscribe(notified);
  own.want('a', '1');
  expect([writes.length, notified.mock.calls.length]).toEqual([0, 0]);
  show({});
  await vi.waitFor(() => expect(notified).toHaveBeenCalledOnce());
  expect(own.writtenSince('a')).toBeDefined();
  await end();
});
