import { beforeEach, expect, it } from 'vitest';
import { BatchWriter, type WriteProgress } from './batch-writer.ts';
import { DesiredState } from './desired-state.ts';
import { FakeTarget } from './testing/fake-target.ts';

const signal = AbortSignal.timeout(5_000);

function setUp() {
  const desired = new DesiredState<string, number>({ equal: (a, b) => a === b });
  const target = new FakeTarget<string, number>();
  const said: string[] = [];
  const writer = new BatchWriter<string, number>({
    name: 'fake',
    desired,
    target,
    batchSize: 100,
    now: () => 0,
    events: {
      round: () => {},
      failure: () => {},
      refused: (owner) => said.push(`refused ${owner}`),
      accepted: (owner) => said.push(`accepted ${owner}`),
      drift: () => {},
      repaired: () => {},
    },
  });
  const writing = (source: WriteProgress<string, number>['source']): WriteProgress<string, number> => ({
    actual: new Map(),
    source,
    put: 0,
    removed: 0,
  });
  const all = () => ({ put: new Map(Array.from(desired.keys(), (key) => [key, desired.wanted(key) ?? 0])), remove: new Set<string>() });
  return { desired, target, said, writer, writing, all };
}

let t = setUp();
beforeEach(() => {
  t = setUp();
});

it('splits refused batches until one owner is left, and writes the rest', async () => {
  for (const owner of ['a', 'b', 'c', 'd']) t.desired.set(owner, new Map([[owner, 1]]));
  t.target.poison.add('b');
  const writing = t.writing('observed');
  await t.writer.write(t.writer.cut(t.all()), writing, signal);
  expect(t.target.log).toEqual(['refuse a b c d', 'refuse a b', 'apply a', 'refuse b', 'apply c d']);
  expect([[...writing.actual.keys()], writing.put, t.said, t.writer.isBackedOff('b', 1)]).toEqual([
    ['a', 'c', 'd'],
    3,
    ['refused b'],
    true,
  ]);
});

it('writes entries of two owners for the one that is not refused', async () => {
  t.desired.set('a', new Map(Object.entries({ bad: 1, shared: 1 })));
  t.desired.set('b', new Map([['shared', 1]]));
  t.target.poison.add('bad');
  await t.writer.write(t.writer.cut(t.all()), t.writing('observed'), signal);
  expect([...t.target.held.keys()]).toEqual(['shared']);
  expect([t.writer.isBackedOff('bad', 1), t.writer.isBackedOff('shared', 1)]).toEqual([true, false]);
});

it('still executes the removals of a refused batch', async () => {
  t.desired.set('a', new Map([['bad', 1]]));
  t.target.poison.add('bad');
  t.target.held.set('old', 1);
  const writing = t.writing('observed');
  await t.writer.write(t.writer.cut({ ...t.all(), remove: new Set(['old']) }), writing, signal);
  expect([t.target.held.size, writing.removed]).toEqual([0, 1]);
});

it('refuses no owner if the observed state may be out of date, and reports written entries', async () => {
  for (const owner of ['a', 'b']) t.desired.set(owner, new Map([[owner, 1]]));
  t.target.poison.add('b');
  const writing = t.writing('remembered');
  const batches = ['a', 'b'].map((owner) => ({ put: new Map([[owner, 1]]), remove: new Set<string>(), owners: [owner] }));
  await expect(t.writer.write(batches, writing, signal)).rejects.toMatchObject({ code: 'REFUSED' });
  expect([[...writing.actual.keys()], t.said, t.writer.refusals()]).toEqual([['a'], [], []]);
  t.target.failNext('refuse');
  const removal = t.writer.cut({ put: new Map(), remove: new Set(['gone']) });
  await expect(t.writer.write(removal, t.writing('observed'), signal)).rejects.toMatchObject({ code: 'REFUSED' });
});

it('clears an owner’s refusal once, when its entries are written', async () => {
  t.desired.set('a', new Map([['x', 1]]));
  t.target.failNext('refuse');
  await t.writer.write(t.writer.cut(t.all()), t.writing('observed'), signal);
  expect([t.writer.refusalOf('a')?.error.code, t.writer.nextMs()]).toEqual(['REFUSED', 30_000]);
  await t.writer.write(t.writer.cut(t.all()), t.writing('observed'), signal);
  expect([t.said, t.writer.clearRefusal('a'), t.writer.nextMs()]).toEqual([['refused a', 'accepted a'], false, Infinity]);
});
