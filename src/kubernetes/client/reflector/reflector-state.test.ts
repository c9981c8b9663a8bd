import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { hasty, many, node, ReflectorScene } from '../../testing/reflector-setup.ts';
import { bookmark, event, list, status, watch } from '../../testing/scripted-api-server.ts';

let t: ReflectorScene;
beforeEach(async () => {
  t = await ReflectorScene.open();
});
afterEach(() => t.close());

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });
const followed = (then: 'end' | 'stay') => watch([...many(10).map((object) => event('ADDED', object)), bookmark('5', true)], then);

it('is synced once a snapshot is complete, and not before', async () => {
  t.start();
  expect(t.reflector.status.state).toBe('not confirmed');
  t.server.answer(status(500, 'InternalError'), followed('stay'));
  await t.synced();
  expect(t.reflector.status.state).toBe('in step');
});

it.each([
  [403, 'Forbidden', 'refused'],
  [401, 'Unauthorized', 'refused'],
  [404, 'NotFound', 'gone'],
  [500, 'InternalError', 'failing'],
])('is not synced with a source that answers %i %s after it was, and keeps its objects', async (code, reason, state) => {
  t.server.answer(followed('end'), status(code, reason), status(code, reason));
  t.start();
  await eventually(() => expect(t.reflector.status.state).toBe(state));
  await eventually(() => expect(t.reported('failed').length).toBeGreaterThanOrEqual(2));
  expect(t.names()).toHaveLength(10);
  expect(t.reflector.status.held).toEqual(state === 'gone' ? { known: 10, missing: 10 } : undefined);
  t.server.answer(watch([bookmark('6')]));
  await eventually(() => expect(t.reflector.status.state).toBe('in step'));
  expect(t.reflector.status.held).toBeUndefined();
});

it('is synced again with a source that is watched and silent, after some time', async () => {
  t.server.answer(followed('end'), status(500, 'InternalError'), watch([]));
  t.start({ ...hasty, healthyWatchMs: 100 });
  await eventually(() => expect(t.reported('failed')).toHaveLength(1));
  await eventually(() => expect(t.reflector.status).toMatchObject({ state: 'in step', objects: 10 }));
  expect(t.reflector.status.lastError).toBeUndefined();
});

it('does not remove everything because the resource was missing for a while', async () => {
  t.server.answer(followed('end'), status(404, 'NotFound'), status(410, 'Expired'), watch([bookmark('9', true)]));
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(5));
  expect([t.reflector.status.state, t.names().length]).toEqual(['held', 10]);
  t.server.answer(list('9', []), watch([]));
  await eventually(() => expect(t.names()).toEqual([]));
  expect(t.reflector.status.state).toBe('in step');
});

it('is not synced with a server behind a seen version, and requires a quorum read if it stays so', async () => {
  t.server.answer(watch([event('ADDED', node('a', 900)), bookmark('900', true)], 'end'), watch([bookmark('880'), bookmark('881')]));
  t.start({ ...hasty, behindMs: 0 });
  await eventually(() => expect(t.server.requests).toHaveLength(3));
  expect(t.reflector.status).toMatchObject({ state: 'behind', behind: '881' });
  expect(t.server.requests[2]).toBe('GET /api/v1/nodes');
  t.server.answer(list('890', [node('b', 885)]), list('890', [node('b', 885)]), watch([bookmark('891')]));
  await eventually(() => expect(t.names()).toEqual(['b']));
  expect(t.reflector.status.state).toBe('in step');
  expect(t.reported('behind')).toEqual([{ what: 'behind', version: '880', seen: '900' }]);
});

it('applies no list that is behind a seen version', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 9)), bookmark('9', true)], 'end'), status(410, 'Expired'));
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('7', true)]));
  t.start();
  await eventually(() => expect(t.server.requests).toHaveLength(4));
  expect([t.names(), t.reflector.status.state]).toEqual([['a', 'b'], 'behind']);
  t.server.answer(list('9', [node('a', 1), node('b', 9)]), watch([]));
  await eventually(() => expect(t.reflector.status.state).toBe('in step'));
  expect(t.changes.flat().filter((key) => key === 'b')).toHaveLength(1);
});
