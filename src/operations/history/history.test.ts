import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { HistoryEvent } from '../../api/history.ts';
import { silentLog } from '../../base/log/log.ts';
import { readEvent } from './event-stream.ts';
import { History, type HistoryOptions } from './history.ts';
import { readHistory } from './read-segments.ts';

let folder = '';
let clockMs = 0;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-history-'));
  clockMs = 1_000_000;
});
afterEach(async () => {
  await Promise.all(opened.splice(0).map((history) => history.close()));
  rmSync(folder, { recursive: true, force: true });
});

const opened: History[] = [];

const openHistory = (more: Partial<HistoryOptions> = {}): History => {
  const history = new History({
    folder: join(folder, 'history'),
    bytesMax: 32 * 1024 * 1024,
    node: 'n1',
    version: '0.0.0',
    log: silentLog,
    now: () => clockMs,
    wallMs: () => clockMs,
    ...more,
  });
  opened.push(history);
  return history;
};

async function eventsRead(): Promise<HistoryEvent[]> {
  const found: HistoryEvent[] = [];
  for await (const line of readHistory(join(folder, 'history'), 'events', { fromMs: 0, untilMs: Number.MAX_SAFE_INTEGER })) {
    const event = readEvent(line);
    if (event) found.push(event);
  }
  return found;
}

describe('the history of a node', () => {
  it('contains events with kind, subjects, text and time', async () => {
    const history = openHistory();
    history.note('cni.add', ['pod/shop/web-1'], { tookMs: 31.44, stages: { ipam: 2, flows: 9.96 } });
    await history.flush();
    expect(await eventsRead()).toEqual([
      {
        time: '1970-01-01T00:16:40.000Z',
        kind: 'cni.add',
        subjects: ['pod/shop/web-1'],
        text: 'ADD answered after 31.4 ms: ipam 2 ms, flows 10 ms',
        data: { tookMs: 31.4, stages: { ipam: 2, flows: 10 } },
      },
    ]);
  });

  it('bounds every event, whatever its names and causes are', async () => {
    const history = openHistory();
    history.note(
      'source.failed',
      Array.from({ length: 100 }, (_, at) => `pod/a/${at}`),
      { resource: 'Pod', cause: 'x'.repeat(100_000) },
    );
    await history.flush();
    const [event] = await eventsRead();
    expect(event?.subjects).toHaveLength(20);
    expect(JSON.stringify(event).length).toBeLessThan(1_500);
  });

  it('counts events beyond the limit of memory', async () => {
    const history = openHistory();
    for (let at = 0; at < 20_000; at++) history.note('source.failed', ['node/n1'], { resource: 'Pod', cause: 'y'.repeat(200) });
    await history.flush();
    await history.flush();
    const found = await eventsRead();
    const lost = found.find(({ kind }) => kind === 'history.lost');
    expect(Number(lost?.data['events']) + found.filter(({ kind }) => kind === 'source.failed').length).toBe(20_000);
    expect(lost?.data['events']).toBeGreaterThan(10_000);
  });

  it('stops while the disk cannot be written, reports it, and continues with the number of lost events', async () => {
    writeFileSync(join(folder, 'history'), 'a file in place of the folder');
    const history = openHistory();
    history.note('agent.ready', ['node/n1'], {});
    await history.flush();
    expect(history.problems()).toMatchObject([{ kind: 'history', about: 'disk', remedy: expect.stringContaining('history.size') }]);
    history.note('agent.ready', ['node/n1'], {});
    rmSync(join(folder, 'history'));
    mkdirSync(join(folder, 'history'));
    await history.flush();
    expect(history.problems()).toHaveLength(1);
    clockMs += 15_000;
    await history.flush();
    expect(history.problems()).toEqual([]);
    history.note('agent.synced', ['node/n1'], {});
    await history.flush();
    expect((await eventsRead()).map(({ kind, data }) => [kind, data['events'] ?? data['seconds']])).toEqual([
      ['history.resumed', 15],
      ['history.lost', 2],
      ['agent.synced', undefined],
    ]);
  });

  it('has the time during which no agent recorded', async () => {
    const first = openHistory();
    const stop = new AbortController();
    const running = first.run(stop.signal);
    first.note('agent.ready', ['node/n1'], {});
    stop.abort();
    await running;
    clockMs += 90_000;
    const again = new AbortController();
    const next = openHistory();
    const second = next.run(again.signal);
    again.abort();
    await second;
    expect((await eventsRead()).map(({ kind, text }) => [kind, text])).toEqual([
      ['agent.ready', 'the agent is ready for pods'],
      ['agent.stopped', 'the agent stops'],
      ['agent.absent', 'no agent recorded events for 90 s before this'],
      ['agent.stopped', 'the agent stops'],
    ]);
  });

  it('is nothing with size 0', async () => {
    const history = openHistory({ bytesMax: 0 });
    history.note('agent.ready', ['node/n1'], {});
    await history.flush();
    expect(await eventsRead()).toEqual([]);
  });

  it('shows events of a later release', () => {
    expect(readEvent({ t: 0, n: 1, k: 'moon.landed', s: ['node/n1'], d: { where: 'sea' } })?.text).toBe('moon.landed {"where":"sea"}');
    expect(readEvent({ t: 0, n: 1, k: 'endpoint.added', s: [], d: {} })?.text).toBe('endpoint.added {}');
    expect(readEvent({ t: 0, n: 1, k: 'toString', s: [], d: {} })?.text).toBe('toString {}');
  });
});
