import { setImmediate as nextTurn } from 'node:timers/promises';
import { expect, it, onTestFinished } from 'vitest';
import { reconcilerScene } from './testing/reconciler-setup.ts';

function scene(options: Parameters<typeof reconcilerScene>[0]) {
  const t = reconcilerScene(options);
  t.start();
  onTestFinished(() => t.end());
  return t;
}

/** Waits until everything that needs no timer has run. */
const someTurns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await nextTurn();
};

it('reports urgent changes when they are written, not at the end of the round that they overtook', async () => {
  const t = scene({ batchSize: 1 });
  const { target, desired, writes } = t;
  const apply = target.apply.bind(target);
  let written: readonly string[] = [];
  target.apply = async (plan) => {
    await apply(plan);
    if (plan.put.has('k0')) desired.set('urgent', new Map([['x', 1]]));
    if (plan.put.has('k1')) written = [...writes];
  };
  for (let key = 0; key < 3; key++) desired.set(`o${key}`, new Map([[`k${key}`, key]]));
  await t.round();
  expect(target.log.slice(1, 4)).toEqual(['apply k0', 'apply x', 'apply k1']);
  expect([written, writes]).toEqual([['urgent'], ['urgent', 'round']]);
});

it('rests after a round, and writes changes that arrive meanwhile together', async () => {
  const t = scene({ restMs: 1_000 }); // long: unit tests get little CPU time beside the labs
  const first = t.want('first', { a: 1 });
  await someTurns();
  expect(t.target.log.slice(1)).toEqual(['apply a']);
  await first;
  const second = t.want('second', { b: 1 });
  await someTurns();
  await Promise.all([second, t.want('third', { c: 1 })]);
  expect(t.target.log.slice(1)).toEqual(['apply a', 'apply b c']);
});
