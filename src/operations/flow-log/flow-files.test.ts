import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog } from '../../base/log/log.ts';
import { parseIp } from '../../base/net/ip.ts';
import { FlowFiles } from './flow-files.ts';
import type { FlowRecord } from './records/flow-record.ts';
import { readStoredFlow, storedFlow } from './records/stored-flow.ts';

let folder: string;
beforeEach(() => void (folder = mkdtempSync(join(tmpdir(), 'seine-flows-'))));
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const denied: FlowRecord = {
  timeMs: 1_000,
  event: 'denied',
  verdict: 'denied',
  reporter: 'destination',
  protocol: 6,
  source: { ip: parseIp('10.0.0.5'), port: 40_000, kind: 'pod', name: 'shop/web-1' },
  destination: { ip: parseIp('fd00::9'), port: 80, kind: 'unknown' },
  service: { ip: parseIp('10.96.0.20'), port: 80 },
  ingress: { verdict: 'denied', by: ['shop/closed'] },
  reason: 'no rule of spec.ingress allows it',
};
const closed: FlowRecord = {
  ...{ timeMs: 2_000, event: 'closed', verdict: 'allowed', reporter: 'both', protocol: 17 },
  ...{
    source: denied.source,
    destination: denied.destination,
    packets: { out: 1, in: 2 },
    bytes: { out: 3, in: 4 },
    startedMs: 1,
    endedMs: 5,
  },
};

function opened(more: Partial<ConstructorParameters<typeof FlowFiles>[0]> = {}) {
  const state = { lost: 0, nowMs: 0 };
  const files = new FlowFiles({
    ...{ folder, bytesMax: 2 ** 20, node: 'node-1', log: silentLog, wallMs: () => 500 },
    now: () => state.nowMs,
    lost: (count) => void (state.lost += count),
    ...more,
  });
  return { files, state };
}

async function all(files: FlowFiles, fromMs = 0, untilMs = 10_000): Promise<readonly FlowRecord[]> {
  const records: FlowRecord[] = [];
  for await (const record of files.read(fromMs, untilMs)) records.push(record);
  return records;
}

it('writes a record as a line, and reads it back', () => {
  for (const record of [denied, closed]) expect(readStoredFlow(JSON.parse(storedFlow(record)))).toEqual(record);
  expect([{}, { format: 1 }, { ...JSON.parse(storedFlow(denied)), from: { ip: 'x', kind: 'pod' } }].map(readStoredFlow)).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
});

it('keeps denied and closed connections, not opened or seen ones, also if the process ends without closing its file', async () => {
  const { files } = opened();
  files.add(denied);
  files.add({ ...denied, event: 'opened' });
  files.add({ ...denied, event: 'seen', verdict: 'allowed' });
  files.add(closed);
  await files.flush();
  const { files: later } = opened();
  expect(await all(later)).toEqual([denied, closed]);
  expect(await all(later, 1_500)).toEqual([closed]);
  expect(await later.lastMs(10_000)).toBe(2_000);
  await files.close();
  await later.close();
});

it('counts what a full disk does not take, and continues when there is room', async () => {
  let isFull = true;
  const { open } = await import('node:fs/promises');
  const { files, state } = opened({
    create: async (path) => {
      if (isFull) throw Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
      return await open(path, 'wx');
    },
  });
  files.add(denied);
  files.add(denied);
  await files.flush();
  expect(state.lost).toBe(2);
  isFull = false;
  files.add(closed);
  await files.flush();
  expect(await all(files)).toEqual([]); // it is not tried again at once
  state.nowMs += 15_000;
  await files.flush();
  expect([await all(files), state.lost]).toEqual([[closed], 2]);
  await files.close();
});

it('writes nothing if its size is 0', async () => {
  const { files } = opened({ bytesMax: 0 });
  files.add(denied);
  await files.close();
  expect(await all(files)).toEqual([]);
  expect(await files.lastMs(10_000)).toBeUndefined();
});
