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

it('applies a deletion among the initial events, in memory and on disk', async () => {
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

it('applies the newest version among the initial events, in any order', async () => {
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

it('does not restore objects deleted among the initial events because they were known before', async () => {
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

it('does not count reported deletions as missing from a list', async () => {
  const names = ['a', 'b', 'c', 'd', 'e', 'f'];
  const added = names.map((name) => event('ADDED', node(name, 1)));
  t.server.answer(watch([...added, bookmark('5', true)], 'end'), status(410, 'Expired'));
  t.server.answer(watch([...added, ...names.map((name) => event('DELETED', node(name, 6))), bookmark('6', true)]));
  t.start();
  await eventually(() => expect(t.names()).toEqual([]));
  expect(t.reported('held')).toEqual([]);
});

it('accepts bookmarks at any moment, and treats only the last one as the end of the initial events', async () => {
  t.server.answer(
    watch([bookmark('3'), event('ADDED', node('a', 1)), bookmark('4'), bookmark('4'), event('ADDED', node('b', 2)), bookmark('5', true)]),
  );
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a', 'b']);
});

it('restarts when the watch fails among the initial events', async () => {
  const expired = event('ERROR', { kind: 'Status', code: 410, reason: 'Expired' });
  t.server.answer(watch([event('ADDED', node('ghost', 1)), expired], 'end'), list('9', [node('a', 8)]), watch([]));
  t.start();
  await t.synced();
  expect(t.names()).toEqual(['a']);
});
