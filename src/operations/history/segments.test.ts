import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { readHistory } from './read-segments.ts';
import { listSegments } from './segment-files.ts';
import { type AppendedFile, SegmentWriter, type SegmentWriterOptions } from './segment-writer.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-history-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

let clockMs = 0;
const writerOf = (more: Partial<SegmentWriterOptions> = {}): SegmentWriter =>
  new SegmentWriter({
    folder,
    stream: 'events',
    bytesMax: 8 * 1024 * 1024,
    header: () => ({ header: true }),
    now: () => clockMs,
    wallMs: () => clockMs,
    ...more,
  });

const always = { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER };

async function numbersRead(period = always): Promise<number[]> {
  const found: number[] = [];
  for await (const line of readHistory(folder, 'events', period)) if (typeof line['n'] === 'number') found.push(line['n']);
  return found;
}

const line = (n: number): string => `${JSON.stringify({ n, text: `event ${n} of pod/shop/web-${n % 7}` })}\n`;
const upTo = (count: number): number[] => Array.from({ length: count }, (_, n) => n);

/** Thrown in place of the death of the process. */
class Killed extends Error {}

/** Writes until the process "dies" within the write number `at`, of which only a part reaches the file. @returns lines flushed before */
async function writeUntilKilled(lines: number, at: number, part: number): Promise<number> {
  let writes = 0;
  const create = async (path: string): Promise<AppendedFile> => {
    const file = await open(path, 'ax', 0o600);
    return {
      close: () => file.close(),
      appendFile: async (bytes) => {
        if (writes++ < at) return await file.appendFile(bytes);
        const given = bytes as Uint8Array;
        if (writes - 1 === at) await file.appendFile(given.subarray(0, Math.floor(given.length * part)));
        throw new Killed();
      },
    };
  };
  const writer = writerOf({ create });
  let flushed = 0;
  try {
    for (let n = 0; n < lines; n++) {
      await writer.append(line(n));
      await writer.flush();
      flushed = n + 1;
    }
    await writer.close();
  } catch (thrown) {
    if (!(thrown instanceof Killed)) throw thrown;
  }
  return flushed;
}

describe('a stream of segments', () => {
  it('returns every flushed line after a kill at each write, also within a write', async () => {
    for (let at = 0; at < 14; at++)
      for (const part of [0, 0.3, 0.999]) {
        rmSync(folder, { recursive: true, force: true });
        const flushed = await writeUntilKilled(12, at, part);
        const found = await numbersRead();
        expect(found.slice(0, flushed)).toEqual(upTo(flushed));
        // The next agent continues in another segment.
        const next = writerOf();
        await next.append(line(100));
        await next.close();
        expect((await numbersRead()).at(-1)).toBe(100);
      }
  });

  it('returns a beginning of it, wherever a file is cut or a byte is corrupted', async () => {
    const writer = writerOf();
    for (let n = 0; n < 200; n++) {
      await writer.append(line(n));
      if (n % 10 === 0) await writer.flush();
    }
    await writer.close();
    const [name = ''] = readdirSync(folder);
    const whole = readFileSync(join(folder, name));
    await fc.assert(
      fc.asyncProperty(fc.nat(whole.length - 1), fc.nat(255), async (at, mask) => {
        const damaged = mask === 0 ? whole.subarray(0, at) : Buffer.from(whole);
        if (mask !== 0) damaged[at] = (damaged[at] ?? 0) ^ mask;
        writeFileSync(join(folder, name), damaged);
        const found = await numbersRead();
        // Without the checksum of a frame that is not complete, a byte of text may be another one; the numbers are a beginning or end there.
        if (mask === 0) expect(found).toEqual(upTo(found.length));
        else expect(found.length).toBeLessThanOrEqual(200);
      }),
      { numRuns: 150 },
    );
  });

  it('ends a segment after ten minutes, and reads only those of a period', async () => {
    clockMs = 1_000_000;
    const writer = writerOf();
    for (let n = 0; n < 4; n++) {
      await writer.append(line(n));
      await writer.flush();
      clockMs += 600_000;
    }
    await writer.close();
    expect(await listSegments(folder, 'events')).toHaveLength(4);
    expect(await numbersRead({ fromMs: 2_300_000, untilMs: 2_500_000 })).toEqual([2]);
    expect(await numbersRead({ fromMs: 2_000_000, untilMs: 2_500_000 })).toEqual([1, 2]);
    expect(await numbersRead()).toEqual(upTo(4));
  });

  it('has at most the given size, and removes the oldest lines first', async () => {
    const bytesMax = 64 * 1024;
    const writer = writerOf({ bytesMax });
    for (let n = 0; n < 400; n++) {
      const noise = Array.from({ length: 40 }, () => Math.random().toString(36)).join('');
      await writer.append(`${JSON.stringify({ n, noise })}\n`);
      await writer.flush();
      const total = readdirSync(folder).reduce((sum, name) => sum + statSync(join(folder, name)).size, 0);
      expect(total).toBeLessThanOrEqual(bytesMax + 1_024);
    }
    await writer.close();
    const found = await numbersRead();
    expect(found.at(-1)).toBe(399);
    expect(found).toEqual(found.map((_, at) => (found[0] ?? 0) + at));
    expect(found.length).toBeGreaterThan(50);
  });

  it('has files for root alone', async () => {
    const writer = writerOf();
    await writer.append(line(0));
    await writer.close();
    const [name = ''] = readdirSync(folder);
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
  });
});
