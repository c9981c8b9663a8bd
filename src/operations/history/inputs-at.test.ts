import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { recordedLines, recordedMs } from '../../../test/support/recorded-inputs.ts';
import { inputsAt, linesAt, recordedInFolder, recordedInputLines } from './inputs-at.ts';
import type { HistoryLine } from './read-segments.ts';
import { SegmentWriter } from './segment-writer.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-inputs-at-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const lines = recordedLines().map((line) => JSON.parse(line) as HistoryLine);

/** Writes each group of lines to a segment of its own. */
async function write(...groups: readonly (readonly HistoryLine[])[]): Promise<void> {
  let clockMs = recordedMs.first;
  const writer = new SegmentWriter({
    ...{ folder, stream: 'inputs', bytesMax: 1e6, header: () => ({ stream: 'inputs' }) },
    ...{ now: () => clockMs, wallMs: () => clockMs },
  });
  for (const group of groups) {
    const { t } = group.find((line) => line['t'] !== undefined) ?? {};
    if (typeof t === 'number') clockMs = t;
    for (const line of group) await writer.append(`${JSON.stringify(line)}\n`);
    await writer.close();
  }
}

async function ingressAt(ms: number): Promise<unknown> {
  const { inputs } = await inputsAt(linesAt(await recordedInFolder(folder), ms));
  return inputs.subjects.find(({ owner }) => owner.includes('db-0'))?.intent.ingress;
}

const later = (all: readonly HistoryLine[], ms: number): readonly HistoryLine[] =>
  all.map((line) => (typeof line['t'] === 'number' ? { ...line, t: line['t'] + ms } : line));
const complete = lines.slice(0, -2);
const rounds = lines.slice(-2);

it('begins with the last complete record, wherever its segments end', async () => {
  await write(complete.slice(0, 3), complete.slice(3), rounds);
  expect([await ingressAt(recordedMs.policed), await ingressAt(recordedMs.freed)]).toEqual([7, undefined]);
});

it('passes over a record that a killed agent did not complete', async () => {
  await write(complete, rounds, later(complete.slice(0, 4), 300_000), later(complete, 400_000));
  expect(await ingressAt(recordedMs.policed)).toBe(7);
  const { atMs } = await inputsAt(linesAt(await recordedInFolder(folder), recordedMs.first + 350_000));
  expect(atMs).toBe(recordedMs.freed);
});

it('names the recorded period, which ends now while an agent records', async () => {
  await write(complete, rounds);
  const past = recordedMs.freed + 60_000;
  const read = async (ms: number, nowMs?: number) => (await inputsAt(linesAt(await recordedInFolder(folder, nowMs), ms))).atMs;
  await expect(read(past)).rejects.toThrow(
    'is after the newest record: inputs are known from 2023-11-14T22:13:20.000Z to 2023-11-14T22:16:20.000Z',
  );
  expect(await read(past, past)).toBe(recordedMs.freed);
  await expect(read(past + 1, past)).rejects.toThrow('to 2023-11-14T22:17:20.000Z');
  await expect(read(recordedMs.first - 1)).rejects.toThrow('is before the oldest record');
  rmSync(folder, { recursive: true });
  await expect(read(past)).rejects.toThrow('has no complete record');
});

const port = (more: object = {}) => ({
  history: { folder, isEnabled: true, completeUntilMs: undefined as number | undefined, ...more },
});

it('answers with lines that lead to the same inputs, and to one reader at a time', async () => {
  await write(complete, rounds);
  const agent = port();
  const query = new URLSearchParams({ at: String(recordedMs.policed) });
  const answer = await recordedInputLines(agent, query);
  const texts = [(await answer.next()).value as string];
  await expect(recordedInputLines(agent, query)).rejects.toThrow('another command reads the history');
  for await (const text of answer) texts.push(text);
  const found = await inputsAt(parsed(texts));
  expect(found.inputs.subjects.find(({ owner }) => owner.includes('db-0'))?.intent.ingress).toBe(7);
  expect(JSON.parse(texts.at(-1) ?? '')).toMatchObject({ t: recordedMs.policed });
  await (await recordedInputLines(agent, query)).next();
});

async function* parsed(texts: readonly string[]): AsyncGenerator<HistoryLine> {
  for (const text of texts) yield JSON.parse(text) as HistoryLine;
}

it.each([
  ['no time', {}, '', 'at: "" is not a number of milliseconds'],
  ['another time', {}, '1h', 'at: "1h" is not a number of milliseconds'],
  ['a node that records nothing', { isEnabled: false }, '1', 'history.size is 0'],
])('refuses %s', async (_, more, at, message) => {
  await expect(recordedInputLines(port(more), new URLSearchParams({ at }))).rejects.toThrow(message);
});
