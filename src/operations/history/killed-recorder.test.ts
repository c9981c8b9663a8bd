import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { generator } from '../../../test/support/random.ts';
import { readHistory } from './read-segments.ts';
import type { HistoryStream } from './segment-files.ts';

/** Number of kills; more in `npm run test:random`. */
const kills = Number(process.env['SEINE_TEST_RECORDER_KILLS'] ?? 8);
const seed = Number(process.env['SEINE_TEST_SEED'] ?? 45);
const ROUNDS = 5;
const program = join(import.meta.dirname, '../../../test/support/recording-process.ts');

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-killed-recorder-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

interface Recorded {
  /** Number of the last record of each stream that was written before the end. */
  readonly events: number;
  readonly inputs: number;
  /** Number of moments at which it could be killed: three in each write. */
  readonly moments: number;
  readonly isKilled: boolean;
}

/** Runs a process that records, and kills it at a moment, as the kernel ends a process: without any further instruction of its own. */
async function record(killedAt: number): Promise<Recorded> {
  const child = spawn(process.execPath, [program, folder, String(ROUNDS)], { stdio: ['ignore', 'inherit', 'inherit', 'pipe', 'pipe'] });
  const [, , , lines, answers] = child.stdio as unknown as [null, null, null, Readable, Writable];
  answers.on('error', () => undefined); // it was killed
  const ended = once(child, 'exit');
  const done = { events: 0, inputs: 0 };
  let moments = 0;
  for await (const line of createInterface({ input: lines })) {
    const [what = '', number = ''] = line.split(' ');
    if (what === 'events' || what === 'inputs') done[what] = Number(number);
    else if (++moments === killedAt) child.kill('SIGKILL');
    else answers.write('.');
  }
  const [, signal] = (await ended) as [number | null, string | null];
  return { ...done, moments, isKilled: signal === 'SIGKILL' };
}

async function numbersOf(stream: HistoryStream): Promise<number[]> {
  const found: number[] = [];
  for await (const { n, k, d, is } of readHistory(folder, stream, { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER })) {
    const number = stream === 'inputs' ? n : k === 'agent.absent' ? (d as { readonly seconds: number }).seconds : undefined;
    if (is === undefined && typeof number === 'number') found.push(number);
  }
  return found;
}

const upTo = (count: number): number[] => Array.from({ length: count }, (_, at) => at + 1);

it(`is complete to the last second after ${kills} kills of a process that records, at random moments of its writes, seed ${seed}`, {
  timeout: 600_000,
}, async () => {
  const { moments: all, isKilled } = await record(Number.POSITIVE_INFINITY);
  expect([isKilled, await numbersOf('events'), await numbersOf('inputs')]).toEqual([false, upTo(ROUNDS), upTo(ROUNDS)]);
  expect(all).toBeGreaterThanOrEqual(3 * 2 * ROUNDS);
  const random = generator(seed);
  // Each moment in turn, from a random one, in steps that come to all of them.
  const first = Math.floor(random() * all);
  const step = [7, 11, 13, 17].find((each) => all % each !== 0) ?? 1;
  for (let kill = 0; kill < kills; kill++) {
    const killedAt = 1 + ((first + kill * step) % all);
    rmSync(folder, { recursive: true, force: true });
    const before = await record(killedAt);
    expect(before.isKilled).toBe(true);
    for (const stream of ['events', 'inputs'] as const) {
      const found = await numbersOf(stream);
      expect(found, `${stream}, killed at moment ${killedAt} of ${all}`).toEqual(upTo(found.length));
      expect(found.length).toBeGreaterThanOrEqual(before[stream]);
      expect(found.length).toBeLessThanOrEqual(before[stream] + 1);
    }
    // The next agent continues in the same folder.
    const [events, inputs] = [await numbersOf('events'), await numbersOf('inputs')];
    await record(Number.POSITIVE_INFINITY);
    expect(await numbersOf('events')).toEqual([...events, ...upTo(ROUNDS)]);
    expect(await numbersOf('inputs')).toEqual([...inputs, ...upTo(ROUNDS)]);
  }
});
