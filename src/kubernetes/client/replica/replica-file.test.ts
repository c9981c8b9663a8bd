import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Held } from './replica.ts';
import { ReplicaFile } from './replica-file.ts';

interface Value {
  readonly n: number;
}

const of = { kind: 'X', revision: 1 };
const turns = new LoopTurns(5);
let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-replica-'));
  path = join(folder, 'x.jsonl');
});
afterEach(() => rmSync(folder, { recursive: true }));

const fileOf = (minAppendedBytes?: number) =>
  new ReplicaFile<Value>({ path, of, turns, ...(minAppendedBytes === undefined ? {} : { minAppendedBytes }) });

/** Replica that changes and is stored, step by step. */
class Stored {
  readonly objects = new Map<string, Held<Value>>();
  readonly file: ReplicaFile<Value>;
  #version = 0;

  constructor(file = fileOf()) {
    this.file = file;
  }

  get version(): string {
    return String(this.#version);
  }

  takeOver(objects: ReadonlyMap<string, Held<Value>>, version: string): void {
    for (const [key, held] of objects) this.objects.set(key, held);
    this.#version = Number(version);
  }

  /** Sets each key to a value, or removes it, and stores that. */
  async save(changes: Readonly<Record<string, number | undefined>>): Promise<number> {
    for (const [key, n] of Object.entries(changes)) {
      this.#version++;
      if (n === undefined) this.objects.delete(key);
      else this.objects.set(key, { version: this.version, value: { n } });
    }
    return this.file.save({ objects: this.objects, changed: new Set(Object.keys(changes)), version: () => this.version });
  }
}

/** Returns what another process finds: version and values, or the reason for nothing. */
async function found(): Promise<unknown> {
  try {
    const stored = await fileOf().load();
    return stored && [stored.version, Object.fromEntries([...stored.objects].map(([key, { value }]) => [key, value.n]))];
  } catch (thrown) {
    return SeineError.from(thrown, 'load').code;
  }
}

function snapshotOf({ version, objects }: Stored): unknown {
  return [version, Object.fromEntries([...objects].map(([key, { value }]) => [key, value.n]))];
}

it('appends changes, and rewrites the whole once as much was appended', async () => {
  const stored = new Stored(fileOf(300));
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, n]));
  const whole = await stored.save(many);
  expect(statSync(path).size).toBe(whole);
  const few = await stored.save({ k1: 100, k2: undefined });
  expect(few).toBeLessThan(whole / 5);
  expect(statSync(path).size).toBe(whole + few);
  expect(await found()).toEqual(snapshotOf(stored));
  for (let round = 0; round < 100; round++) {
    await stored.save({ k3: round });
    expect(statSync(path).size).toBeLessThan(2 * whole + 2 * few);
  }
  expect(await found()).toEqual(snapshotOf(stored));
  await stored.file.close();
});

it('costs no more than twice the changes, and the whole once', async () => {
  const stored = new Stored(fileOf(1_000));
  const many = Object.fromEntries(Array.from({ length: 1_000 }, (_, n) => [`k${n}`, n]));
  const whole = await stored.save(many);
  let written = 0;
  for (let round = 0; round < 500; round++) written += await stored.save({ [`k${round}`]: 1_000 + round, [`k${round + 1}`]: round });
  const line = whole / 1_000;
  expect(written).toBeLessThan(2 * 500 * (2 * line + 60) + whole);
  expect(await found()).toEqual(snapshotOf(stored));
  await stored.file.close();
});

const histories = fc.array(
  fc.dictionary(fc.constantFrom('a', 'b', 'c', 'd'), fc.option(fc.nat(9), { nil: undefined }), { minKeys: 1, noNullPrototype: true }),
  { minLength: 1, maxLength: 8 },
);

it('is an earlier stored state, wherever it was truncated', async () => {
  await fc.assert(
    fc.asyncProperty(histories, fc.double({ min: 0, max: 1, noNaN: true }), async (history, where) => {
      const stored = new Stored();
      const states: { readonly size: number; readonly state: unknown }[] = [];
      for (const changes of history) {
        await stored.save(changes);
        states.push({ size: statSync(path).size, state: snapshotOf(stored) });
      }
      await stored.file.close();
      const bytes = readFileSync(path);
      const cut = Math.floor(where * bytes.length);
      const expected = states.findLast(({ size }) => size <= cut)?.state ?? 'INVALID_INPUT';
      writeFileSync(path, bytes.subarray(0, cut));
      expect(await found()).toEqual(expected);
      // A file system may have the new length and not the bytes.
      writeFileSync(path, Buffer.concat([bytes.subarray(0, cut), Buffer.alloc(bytes.length - cut)]));
      expect(await found()).toEqual(cut === bytes.length ? states.at(-1)?.state : expected);
    }),
    { numRuns: 300 },
  );
});

it('is never a state that was not stored, whichever byte is corrupted', async () => {
  await fc.assert(
    fc.asyncProperty(
      histories,
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.integer({ min: 1, max: 255 }),
      async (history, where, mask) => {
        const stored = new Stored();
        const possible: unknown[] = ['INVALID_INPUT', undefined];
        for (const changes of history) {
          await stored.save(changes);
          possible.push(snapshotOf(stored));
        }
        await stored.file.close();
        const bytes = readFileSync(path);
        const at = Math.floor(where * bytes.length);
        bytes[at] = (bytes[at] ?? 0) ^ mask;
        writeFileSync(path, bytes);
        expect(possible.slice(0, -1)).toContainEqual(await found());
      },
    ),
    { numRuns: 300 },
  );
});

it('is the complete old one, when the host died before the rename of the new one', async () => {
  const stored = new Stored(fileOf(0));
  await stored.save({ a: 1, b: 2 });
  await stored.save({ a: 3 });
  const before = snapshotOf(stored);
  copyFileSync(path, join(folder, 'before'));
  for (const n of [4, 5, 6]) await stored.save({ a: n, c: n });
  await stored.file.close();
  expect(await found()).toEqual(snapshotOf(stored));
  copyFileSync(join(folder, 'before'), path); // the rename was lost, with all that was appended to the new file
  writeFileSync(`${path}.new`, '{"format":2,"ki');
  expect(await found()).toEqual(before);
  const next = new Stored();
  await next.save({ z: 1 });
  expect([await found(), existsSync(`${path}.new`)]).toEqual([snapshotOf(next), false]);
  await next.file.close();
});

/** Returns the replica of a new process that loaded the stored one and owns the file from then on. */
async function restarted(from: Stored, minAppendedBytes?: number): Promise<Stored> {
  await from.file.close();
  const next = new Stored(fileOf(minAppendedBytes));
  const stored = await next.file.load();
  next.takeOver(stored?.objects ?? new Map(), stored?.version ?? '0');
  return next;
}

it('is continued by the next process, which does not rewrite what it has read', async () => {
  const first = new Stored();
  const whole = await first.save(Object.fromEntries(Array.from({ length: 100 }, (_, n) => [`k${n}`, n])));
  const second = await restarted(first);
  const few = (await second.save({})) + (await second.save({ k1: 100, k2: undefined }));
  expect(few).toBeLessThan(whole / 5);
  expect(statSync(path).size).toBe(whole + few);
  expect(await found()).toEqual(snapshotOf(second));
  const third = await restarted(second);
  await third.save({ k3: 7 });
  expect(await found()).toEqual(snapshotOf(third));
  await third.file.close();
});

it('is rewritten in time, however many processes have appended to it', async () => {
  let stored = new Stored(fileOf(300));
  const many = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`k${n}`, n]));
  const whole = await stored.save(many);
  for (let round = 0; round < 30; round++) {
    stored = await restarted(stored, 300);
    await stored.save({ k3: round, k4: round });
    expect(statSync(path).size).toBeLessThan(3 * whole);
  }
  expect(await found()).toEqual(snapshotOf(stored));
  await stored.file.close();
});

it('has the last state stored by each process, wherever the previous one was truncated', async () => {
  await fc.assert(
    fc.asyncProperty(
      histories,
      histories,
      fc.double({ min: 0, max: 1, noNaN: true }),
      fc.boolean(),
      async (before, after, where, zeros) => {
        rmSync(path, { force: true });
        const first = new Stored();
        for (const changes of before) await first.save(changes);
        await first.file.close();
        const bytes = readFileSync(path);
        const cut = Math.floor(where * bytes.length);
        writeFileSync(path, Buffer.concat([bytes.subarray(0, cut), Buffer.alloc(zeros ? bytes.length - cut : 0)]));
        const next = new Stored();
        const stored = await next.file.load().catch(() => undefined);
        next.takeOver(stored?.objects ?? new Map(), stored?.version ?? '0');
        for (const changes of after) {
          await next.save(changes);
          expect(await found()).toEqual(snapshotOf(next));
        }
        await next.file.close();
      },
    ),
    { numRuns: 60 },
  );
});

it('is recreated when it is deleted, or replaced by another', async () => {
  const stored = new Stored();
  await stored.save({ a: 1 });
  rmSync(path);
  await stored.save({ b: 2 });
  expect(await found()).toEqual(snapshotOf(stored));
  rmSync(path);
  writeFileSync(path, 'another');
  await stored.save({ b: 3 });
  expect(await found()).toEqual(snapshotOf(stored));
  rmSync(folder, { recursive: true });
  await stored.save({ c: 4 });
  expect(await found()).toEqual(snapshotOf(stored));
  await stored.file.close();
});

it('is rewritten after it could not be written', async () => {
  const stored = new Stored();
  mkdirSync(path);
  await expect(stored.save({ a: 1, b: 1 })).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  rmSync(path, { recursive: true });
  await stored.save({ b: 2 });
  expect(await found()).toEqual(snapshotOf(stored));
  await stored.file.close();
});

it('restores nothing, and reports no corruption, if it has another layout', async () => {
  writeFileSync(path, '{"format":1,"kind":"X","revision":1}\n{"end":0,"version":"7"}\n');
  expect(await found()).toBeUndefined();
});
