import { readFile, stat, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { node, ReflectorScene } from '../../testing/reflector-setup.ts';
import { bookmark, event, watch } from '../../testing/scripted-api-server.ts';

let t: ReflectorScene;
beforeEach(async () => {
  t = await ReflectorScene.open();
});
afterEach(() => t.close());

const eventually = (check: () => void) => vi.waitFor(check, { timeout: 5_000, interval: 2 });

const file = () => join(t.stateDir, 'node.jsonl');

it('serves without an API server, unsynced, and does not go back', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true), event('ADDED', node('b', 6))]));
  t.start();
  await eventually(() => expect(t.names()).toEqual(['a', 'b']));
  const before = t.reflector.replica.get('a');
  await t.restart();
  await eventually(() => expect(t.server.requests).toHaveLength(1));
  expect(t.names()).toEqual(['a', 'b']);
  expect(t.reflector.replica.synced).toBe(false);
  expect(t.reflector.replica.get('a')).toEqual(before);
  expect(t.server.requests[0]).toContain('resourceVersion=6&sendInitialEvents');
  t.changes = [];
  t.server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 6)), bookmark('9', true)]));
  await t.synced();
  expect(t.changes.flat()).toEqual([]);
});

it('is readable by its owner alone', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)]));
  t.start();
  await vi.waitFor(async () => expect((await stat(file())).mode & 0o777).toBe(0o600));
});

it('is ignored when it is corrupt, truncated, or of another kind', async () => {
  t.server.answer(watch([event('ADDED', node('a', 1)), event('ADDED', node('b', 1)), bookmark('5', true)]));
  t.start();
  await t.synced();
  await t.stop();
  const whole = await readFile(file(), 'utf8');
  for (const damaged of [
    whole.slice(0, -10),
    whole.replace(/\n.*end.*/, ''),
    whole.replace(/.*"key":"a".*\n/, ''),
    'garbage',
    '',
    whole.replace('"Node"', '"Pod"'),
  ]) {
    await writeFile(file(), damaged);
    t.start();
    await eventually(() => expect(t.server.requests.at(-1)).toContain('resourceVersion=0&'));
    expect(t.reflector.replica.size).toBe(0);
    t.server.requests.length = 0;
    await t.stop();
    await writeFile(file(), whole);
  }
});

it('is reported if it cannot be written, without other effects', async () => {
  await writeFile(join(t.stateDir, 'x'), '');
  t.stateDir = join(t.stateDir, 'x');
  t.server.answer(watch([event('ADDED', node('a', 1)), bookmark('5', true)]));
  t.start();
  await t.synced();
  await eventually(() => expect(t.reported('storage').length).toBeGreaterThan(0));
  expect(t.names()).toEqual(['a']);
});
