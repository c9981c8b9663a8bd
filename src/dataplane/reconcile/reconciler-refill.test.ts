import { afterEach, beforeEach, expect, it } from 'vitest';
import { reconcilerScene } from './testing/reconciler-setup.ts';

/** Keys that begin with `in` are entry points; values from 100 on belong to another program. */
const entryPoints = { has: (key: string) => key.startsWith('in'), isOurs: (_: string, value: number) => value < 100 };
let t = reconcilerScene();

const applied = (): readonly string[] => t.target.log.filter((line) => line.startsWith('apply'));
const beforeFirstIn = (): readonly string[] => applied().slice(0, applied().findIndex(isIn));
const isIn = (line: string): boolean => line.split(' ').some((word) => word.startsWith('in'));

/** Three owners, each with one entry point and two entries that it forwards to, in batches of one owner. */
function wantAll(): number {
  for (const owner of ['a', 'urgent b', 'c']) {
    const of = owner.at(-1) ?? '';
    t.desired.set(owner, new Map([`in ${of}`, `x ${of}`, `y ${of}`].map((key) => [key.replace(' ', '-'), 1])));
  }
  return t.desired.revision;
}

async function realized(revision: number): Promise<void> {
  t.reconciler.poke();
  await t.reconciler.realized(revision, t.deadline());
}

beforeEach(() => {
  t = reconcilerScene({ batchSize: 3, entryPoints });
});
afterEach(() => t.end());

it('adds entry flows when all other entries of an emptied target are present, of urgent owners too', async () => {
  const revision = wantAll();
  t.start();
  await realized(revision);
  const before = beforeFirstIn();
  expect(before.join(' ').match(/[xy]-./g)).toHaveLength(6);
  expect(applied().slice(before.length).every(isIn)).toBe(true);
  expect([...t.target.held.keys()].filter((key) => key.startsWith('in'))).toHaveLength(3);
});

it('does so again when the target is emptied at run time', async () => {
  t.start();
  await realized(wantAll());
  t.target.wipe();
  t.target.held.set('in-foreign', 100);
  t.target.log.length = 0;
  t.reconciler.recheck();
  await t.round();
  await expect.poll(() => [...t.target.held.keys()].filter((key) => /^in-[abc]/.test(key)).length).toBe(3);
  expect(
    beforeFirstIn()
      .join(' ')
      .match(/[xy]-./g),
  ).toHaveLength(6);
});

it('writes in any order if entry flows are present already', async () => {
  t.target.held.set('in-a', 1);
  const revision = wantAll();
  t.start();
  await realized(revision);
  expect(applied().some((line) => isIn(line) && /[xy]-/.test(line))).toBe(true);
});

it('adds no entry flows before the desired state is complete, and acknowledges meanwhile', async () => {
  t.reconciler.withholdEntryPoints();
  t.start();
  await realized(wantAll());
  await t.want('urgent d', { 'in-d': 1, 'x-d': 1 });
  expect([...t.target.held.keys()].filter((key) => key.startsWith('in'))).toEqual([]);
  expect(t.target.held.get('x-d')).toBe(1);
  await t.reconciler.lead(t.deadline());
  expect([...t.target.held.keys()].filter((key) => key.startsWith('in')).toSorted()).toEqual(['in-a', 'in-b', 'in-c', 'in-d']);
});

it('adds no entry flows in a round that began before', async () => {
  const { promise: mayGoOn, resolve: goOn } = Promise.withResolvers<void>();
  const apply = t.target.apply.bind(t.target);
  let calls = 0;
  t.target.apply = async (plan) => {
    if (calls++ === 0) await mayGoOn;
    await apply(plan);
  };
  t.reconciler.withholdEntryPoints();
  wantAll();
  t.start();
  await expect.poll(() => calls).toBe(1);
  t.desired.set('late', new Map(['in-l', 'x-l'].map((key) => [key, 1])));
  const led = t.reconciler.lead(t.deadline());
  goOn();
  await led;
  expect(beforeFirstIn().join(' ')).toContain('x-l');
});

it('does not observe again for that if the target was not empty', async () => {
  t.reconciler.withholdEntryPoints();
  t.target.held.set('in-a', 1);
  t.start();
  await realized(wantAll());
  const looks = t.target.log.filter((line) => line === 'observe').length;
  await t.reconciler.lead(t.deadline());
  expect(t.target.log.filter((line) => line === 'observe')).toHaveLength(looks);
});

it('adds no entry flows of an owner whose other entries were refused', async () => {
  t.target.poison.add('y-c');
  const revision = wantAll();
  t.start();
  await realized(revision);
  expect(t.refused.map(([owner]) => owner)).toEqual(['c']);
  expect([...t.target.held.keys()].filter((key) => key.startsWith('in')).toSorted()).toEqual(['in-a', 'in-b']);
});

it('continues with entry flows after an answer was lost', async () => {
  const revision = wantAll();
  t.target.failNext('loseAnswer', 'loseRequest');
  t.start();
  await realized(revision);
  expect([...t.target.held.keys()]).toHaveLength(9);
});
