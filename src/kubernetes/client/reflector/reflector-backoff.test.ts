import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { many, node, ReflectorScene } from '../../testing/reflector-setup.ts';
import { bookmark, event, list, status, watch } from '../../testing/scripted-api-server.ts';

let t: ReflectorScene;
beforeEach(async () => {
  t = await ReflectorScene.open();
});
afterEach(() => t.close());

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });

const full = watch([...many(10).map((object) => event('ADDED', object)), bookmark('5', true)], 'end');

it('delays an empty snapshot until a quorum read disagrees', async () => {
  t.server.answer(full, status(410, 'Expired'), watch([bookmark('6', true)]), list('7', many(9)), watch([]));
  t.start();
  await eventually(() => expect(t.names()).toHaveLength(9));
  expect(t.server.requests[3]).toBe('GET /api/v1/nodes');
  expect(t.reported('held')).toEqual([{ what: 'held', known: 10, missing: 10 }]);
  expect(t.changes.flat().filter((key) => key === 'n0')).toHaveLength(1);
});

it('reports that a quorum read has all missing objects', async () => {
  t.server.answer(full, status(410, 'Expired'), watch([bookmark('6', true)]), list('7', many(10)), watch([]));
  t.start();
  await eventually(() => expect(t.reported('refuted')).toEqual([{ what: 'refuted', missing: 10 }]));
  expect(t.names()).toHaveLength(10);
  expect([t.reported('released'), t.changes.flat().filter((key) => key === 'n0')]).toEqual([[], ['n0']]);
});

it('applies the removal once the quorum read agrees, and not before', async () => {
  t.server.answer(full, status(410, 'Expired'), watch([event('ADDED', node('new', 6)), bookmark('6', true)]), status(503, 'Unavailable'));
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(5));
  expect(t.names()).toHaveLength(11);
  expect(t.reflector.status.held).toMatchObject({ known: 10, missing: 10 });
  t.server.answer(list('7', [node('new', 6)]), watch([]));
  await eventually(() => expect(t.names()).toEqual(['new']));
  expect(t.reflector.status.held).toBeUndefined();
});

it('also guards objects stored by an earlier process', async () => {
  t.server.answer(full, watch([]));
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(2));
  await t.restart();
  t.server.answer(watch([bookmark('6', true)]));
  await eventually(() => expect(t.reported('held')).toHaveLength(1));
  expect(t.names()).toHaveLength(10);
  expect(t.reflector.replica.synced).toBe(false);
});
