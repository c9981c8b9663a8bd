import { afterEach, beforeEach, expect, it } from 'vitest';
import { nothing } from '../desired/host-entries.ts';
import { type Owner, ownerOf } from '../pipeline/cookie.ts';
import { drop, priority } from '../pipeline/flow.ts';
import { tables } from '../pipeline/tables.ts';
import { type BridgeKey, tableOfKey } from './bridge/bridge-entry.ts';
import { BridgeLosses } from './bridge-losses.ts';
import { NodeState } from './node-state.ts';
import { fakeTargets } from './testing/fake-targets.ts';

let stop = new AbortController();
beforeEach(() => void (stop = new AbortController()));
afterEach(() => stop.abort());

/** Node with one flow in `classify` and `count` in another table, written; from now on each batch waits for `open`. */
async function emptiedNode(count: number) {
  const obstacles = new Map<string, string>();
  const readiness = {
    obstruct: (what: string, state: string, reason: string) => void obstacles.set(what, `${state}: ${reason}`),
    clear: (what: string) => void obstacles.delete(what),
  };
  const losses = new BridgeLosses({ readiness, desired: () => state.bridge.counts });
  const silent = { round: () => {}, failure: () => {}, refused: () => {}, drift: () => {}, repaired: () => {} };
  const targets = fakeTargets();
  const { bridge } = targets;
  const state = new NodeState(targets, losses.follow(silent));
  const owner = (at: number): Owner => ownerOf('service', `default/s${at}`);
  state.want(ownerOf('node', 'entry'), { ...nothing, flows: [{ table: 'classify', priority: priority.normal, match: {}, steps: drop }] });
  for (let at = 0; at < count; at++)
    state.want(owner(at), {
      ...nothing,
      flows: [{ table: 'balance', priority: priority.normal, match: { payload: 'ipv4', protocol: 'tcp', portDst: at + 1 }, steps: drop }],
    });
  state.allowRemovals();
  void state.run(stop.signal);
  await state.reconcilers.bridge.realized(state.bridge.revision, stop.signal);
  const gate = Promise.withResolvers<void>();
  const apply = bridge.apply.bind(bridge);
  bridge.apply = async (plan) => {
    await gate.promise;
    await apply(plan);
  };
  const lose = (which: (key: BridgeKey) => boolean): void => {
    for (const key of [...bridge.held.keys()]) if (which(key)) bridge.held.delete(key);
    state.reconcilers.bridge.recheck();
  };
  return { why: () => [...obstacles.values()].join(), losses, state, lose, open: gate.resolve };
}

it.each([
  ['all flows were deleted', 150, () => true],
  ['all flows of a table were deleted', 5, (key: BridgeKey) => tableOfKey(key) === tables.balance.id],
  ['a hundred flows of a table were deleted', 150, fewOf(100)],
])('is not ready while %s, and is once they are restored', async (_, count, which) => {
  const node = await emptiedNode(count);
  expect(node.why()).toBe('');
  node.lose(which);
  await expect.poll(node.why).toMatch(/^impaired: .* were deleted/);
  node.open();
  await expect.poll(node.why).toBe('');
});

it('stays ready while a few flows of a table are restored', async () => {
  const node = await emptiedNode(150);
  node.lose(fewOf(99));
  await expect.poll(() => node.state.reconcilers.bridge.repairing).toBe(99);
  expect(node.why()).toBe('');
  node.open();
});

it('is not ready after a second connection until the bridge was read', async () => {
  const node = await emptiedNode(3);
  node.open();
  node.losses.connected();
  expect(node.why()).toBe('');
  node.losses.connected();
  expect(node.why()).toMatch(/^starting: /);
  node.state.reconcilers.bridge.invalidate();
  await expect.poll(node.why).toBe('');
});

function fewOf(count: number): (key: BridgeKey) => boolean {
  let left = count;
  return (key) => tableOfKey(key) === tables.balance.id && left-- > 0;
}
