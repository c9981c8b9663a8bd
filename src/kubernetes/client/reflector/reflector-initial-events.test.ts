import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { node, ReflectorScene } from '../../testing/reflector-setup.ts';
import { bookmark, event, list, status, watch } from '../../testing/scripted-api-server.ts';

let t: ReflectorScene;
beforeEach(async () => {
  t = await ReflectorScene.open();
});
afterEach(() => t.close());

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });

it('takes a deletion among the initial events for a deletion, in memory and on disk', async () => {
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      event('ADDED', node('ghost', 2)),
      event('DELETED', node('ghost', 7)),
      event('MODIFIED', node('a', 6, '10.6.0.0/24')),
      bookmark('7', true),
    ]),
  );
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a']);
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.6.0.0/24']);
  await t.stop();
  expect(await readFile(join(t.stateDir, 'node.jsonl'), 'utf8')).not.toContain('ghost');
});

it('lets the newest count among the initial events, in whatever order they come', async () => {
  t.server.answer(
    watch([
      event('DELETED', node('gone', 7)),
      event('MODIFIED', node('a', 6, '10.6.0.0/24')),
      event('ADDED', node('a', 1)),
      event('ADDED', node('gone', 2)),
      event('DELETED', node('again', 3)),
      event('ADDED', node('again', 5)),
      event('DELETED', node('a', 4)),
      bookmark('7', true),
      event('MODIFIED', node('gone', 6)),
      event('ADDED', node('last', 8)),
    ]),
  );
  t.start();
  await eventually(() => expect(t.names()).toContain('last'));
  expect(t.names()).toEqual(['a', 'again', 'last']);
  expect(t.reflector.replica.get('a')?.podCidrs).toEqual(['10.6.0.0/24']);
});

it('brings back nothing that was deleted among the initial events because it was known before', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 2)), bookmark('5', true)], 'end'));
  t.server.answer(status(410, 'Expired'));
  t.server.answer(
    watch([
      event('ADDED', node('a', 1)),
      event('ADDED', node('b', 2)),
      event('DELETED', node('a', 6)),
      { type: 'WHAT' },
      bookmark('6', true),
    ]),
  );
  t.start();
  await eventually(() => expect(t.names()).toEqual(['b']));
});

it('does not take deletions that were told for a list that lacks too much', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const added = names.map((name) => event('ADDED', node(name, 1)));
  t.server.answer(watch([...added, bookmark('5', true)], 'end'), status(410, 'Expired'));
  t.server.answer(watch([...added, ...names.map((name) => event('DELETED', node(name, 6))), bookmark('6', true)]));
  t.start();
  await eventually(() => expect(t.names()).toEqual([]));
  expect(t.reported('held')).toEqual([]);
});

it('hears bookmarks at any moment, and takes none but the last of the initial events for their end', async () => {
  t.server.answer(
    watch([bookmark('3'), event('ADDED', node('a', 1)), bookmark('4'), bookmark('4'), event('ADDED', node('b', 2)), bookmark('5', true)]),
  );
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a', 'b']);
});

it('begins anew when the watch fails among the initial events', async () => {
  const expired = event('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  t.server.answer(watch([event('ADDED', node('ghost', 1)), expired], 'end'), list('9', [node('a', 8)]), watch([]));
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a']);
});
