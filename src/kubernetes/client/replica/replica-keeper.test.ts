import { existsSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import type { SeineError } from '../../../base/errors/seine-error.ts';
import { ReplicaStore } from './replica.ts';
import { ReplicaFile } from './replica-file.ts';
import { ReplicaKeeper } from './replica-keeper.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-keeper-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

it('writes as soon as the API server has confirmed the copy, and then at most at an interval', async () => {
  const store = new ReplicaStore<{ readonly n: number }>();
  const options = { store, file: join(folder, 'x.jsonl'), of: { kind: 'X', revision: 1 }, turns: new LoopTurns(5), onError: () => {} };
  const keeper = new ReplicaKeeper({ ...options, everyMs: 600_000 });
  const stop = new AbortController();
  const keeping = keeper.run(() => '7', stop.signal);
  store.put('a', '1', { n: 1 });
  store.flush();
  await new Promise((resolve) => setImmediate(resolve));
  expect(existsSync(options.file)).toBe(false);
  store.markSynced();
  store.flush();
  const restored = async (): Promise<unknown> => {
    const next = new ReplicaStore<{ readonly n: number }>();
    const version = await new ReplicaKeeper({ ...options, store: next, everyMs: 1 }).restore();
    return [version, [...next.entries()]];
  };
  await expect.poll(restored).toEqual(['7', [['a', { n: 1 }]]]);
  store.put('a', '2', { n: 2 });
  store.flush();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(await restored()).toEqual(['7', [['a', { n: 1 }]]]);
  stop.abort();
  await keeping;
  expect(await restored()).toEqual(['7', [['a', { n: 2 }]]]);
});

it('retries a failed write, though nothing changes any more', async () => {
  const store = new ReplicaStore<{ readonly n: number }>();
  const errors: SeineError[] = [];
  const file = join(folder, 'x.jsonl');
  const options = { store, file, of: { kind: 'X', revision: 1 }, turns: new LoopTurns(5), everyMs: 1 };
  const keeper = new ReplicaKeeper({ ...options, onError: (error) => errors.push(error) });
  mkdirSync(file);
  const stop = new AbortController();
  const keeping = keeper.run(() => '7', stop.signal);
  store.put('a', '1', { n: 1 });
  store.markSynced();
  await expect.poll(() => errors.length).toBeGreaterThan(1);
  rmSync(file, { recursive: true });
  await expect.poll(() => existsSync(file)).toBe(true);
  stop.abort();
  await keeping;
});

it('rewrites the whole when the server has gone back in time, whose versions have another meaning now', async () => {
  const store = new ReplicaStore<{ readonly n: number }>();
  const options = { store, file: join(folder, 'x.jsonl'), of: { kind: 'X', revision: 1 }, turns: new LoopTurns(5), onError: () => {} };
  const keeper = new ReplicaKeeper({ ...options, everyMs: 1 });
  let version = '900';
  const stop = new AbortController();
  const keeping = keeper.run(() => version, stop.signal);
  store.put('same', '900', { n: 1 });
  store.markSynced();
  store.flush();
  const versions = async () =>
    [...((await new ReplicaFile({ path: options.file, ...options }).load())?.objects ?? [])].map(([key, held]) => [key, held.version]);
  await expect.poll(versions).toEqual([['same', '900']]);
  version = '4';
  store.replace(
    new Map([
      ['same', store.reuse('same', '3', { n: 1 })],
      ['new', { version: '4', value: { n: 2 } }],
    ]),
  );
  store.flush();
  await expect.poll(versions).toEqual([
    ['same', '3'],
    ['new', '4'],
  ]);
  stop.abort();
  await keeping;
});
