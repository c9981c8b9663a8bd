import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { History, type HistoryOptions } from './history.ts';
import { historySamples } from './history-samples.ts';

let folder = '';
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-history-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const openHistory = (more: Partial<HistoryOptions> = {}): History =>
  new History({
    ...{ folder, bytesMax: 1024 * 1024, node: 'n1', version: '0.0.0', log: silentLog, now: () => 0, wallMs: () => 1_000_000 },
    ...more,
  });

it('shows what is on disk, and since when', async () => {
  const history = openHistory();
  for (let count = 0; count < 3; count++) history.note('agent.stopped', ['node/n1'], {});
  await history.flush();
  await history.writeInputs(['{}', '{}'], async () => undefined);
  const { history_bytes: bytes, ...samples } = await historySamples(history);
  expect(samples).toEqual({
    history_recording: [[{}, 1]],
    history_records_total: [
      [{ stream: 'events' }, 3],
      [{ stream: 'inputs' }, 2],
    ],
    history_lost_total: [[{}, 0]],
    history_oldest_seconds: [
      [{ stream: 'events' }, 1_000],
      [{ stream: 'inputs' }, 1_000],
    ],
  });
  expect(bytes.map(([{ stream }, size]) => [stream, size > 0])).toEqual([
    ['events', true],
    ['inputs', true],
  ]);
  await history.close();
});

it('shows that recording has stopped, and the events that are lost since then', async () => {
  const history = openHistory({ create: () => Promise.reject(new Error('ENOSPC')) });
  history.note('agent.stopped', ['node/n1'], {});
  await history.flush();
  for (let count = 0; count < 2; count++) history.note('agent.stopped', ['node/n1'], {});
  const { history_recording, history_lost_total, history_records_total, history_bytes } = await historySamples(history);
  expect([history_recording, history_lost_total]).toEqual([[[{}, 0]], [[{}, 3]]]);
  expect(history_records_total.map(([, records]) => records)).toEqual([0, 0]);
  expect(history_bytes.map(([, size]) => size)).toEqual([0, 0]);
});

it('does not count events as lost while they are written', async () => {
  const history = openHistory();
  history.note('agent.stopped', ['node/n1'], {});
  let isWritten = false;
  const written = history.flush().then(() => (isWritten = true));
  const totals = new Set<number>();
  for (; !isWritten; await nextTurn()) totals.add(history.lostTotal);
  await written;
  expect([...totals, history.lostTotal]).toEqual([0, 0]);
  await history.close();
});

it('has no series if nothing is to be recorded', async () => {
  expect(Object.values(await historySamples(openHistory({ bytesMax: 0 }))).flat()).toEqual([]);
});
