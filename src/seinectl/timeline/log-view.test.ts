import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { AgentClient } from '../agent-client.ts';
import { plain } from '../paint.ts';
import { showLog } from './log-view.ts';

const nowMs = Date.parse('2026-11-23T12:00:00.000Z');
const line = (time: string, level: string, msg: string, fields: object = {}) =>
  JSON.stringify({ level, time, node: 'node-1', ...fields, msg });
const lines = [
  line('2026-11-23T11:00:00.000Z', 'info', 'agent starts', { bridge: 'br-int' }),
  line('2026-11-23T11:55:00.000Z', 'info', 'synced with the API server', { resource: 'Service', objects: 2 }),
  line('2026-11-23T11:56:00.000Z', 'warn', 'foreign change; repaired', { part: 'bridge', entries: 3, cause: 'not by\u001b[2J this agent' }),
  '{"level":"info","time":"2026-11-23T11:57:00',
  line('2026-11-23T11:59:00.000Z', 'debug', 'reconciled', { part: 'host', owner: 'pod/shop/web-0' }),
];

async function shown(options: Partial<Parameters<typeof showLog>[1]>) {
  const folder = mkdtempSync(join(tmpdir(), 'seine-timeline-'));
  const socket = join(folder, 'agent.sock');
  const server = createServer((request, response) => {
    response.writeHead(request.url === '/v1/logs' ? 200 : 404).end(`${lines.join('\n')}\n`);
  });
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  const out: string[] = [];
  const err: string[] = [];
  const terminal = {
    room: { width: 80, paint: plain },
    line: (text: string) => void out.push(text),
    remark: (text: string) => void err.push(text),
  };
  try {
    const code = await showLog(new AgentClient(socket), { since: 600, level: 'debug', ...options }, terminal, nowMs);
    return { code, out, err };
  } finally {
    await new Promise((resolve) => server.close(resolve));
    rmSync(folder, { recursive: true, force: true });
  }
}

it('lists recent events of the agent, one per line, without cursor movement', async () => {
  const { code, out, err } = await shown({});
  expect(out).toEqual([
    '2026-11-23T11:55:00.000Z info  synced with the API server  resource=Service  objects=2',
    expect.stringMatching(
      /^2026-11-23T11:56:00.000Z warn {2}foreign change; repaired {2}part=bridge {2}entries=3 {2}cause=not by\S* this agent$/,
    ),
    '2026-11-23T11:59:00.000Z debug reconciled  part=host  owner=pod/shop/web-0',
  ]);
  expect(out.join()).not.toContain('\u001b');
  expect([code, err]).toEqual([0, []]);
});

it('omits events below a level, and those without a given name', async () => {
  expect((await shown({ level: 'warn' })).out).toHaveLength(1);
  expect((await shown({ about: 'SHOP/web-0' })).out).toEqual([expect.stringContaining('reconciled')]);
});

it('reports that there were none, and the beginning of the record', async () => {
  expect(await shown({ since: 30 })).toMatchObject({ code: 0, out: [], err: ['seinectl: nothing in the last 30s'] });
  const { out, err } = await shown({ since: 86_400 });
  expect(out).toHaveLength(4);
  expect(err).toEqual([expect.stringContaining('begins at 2026-11-23T11:00:00.000Z')]);
});

it('prints lines unchanged for programs', async () => {
  const { out } = await shown({ json: true, level: 'info' });
  expect(out.map((text) => JSON.parse(text).msg)).toEqual(['synced with the API server', 'foreign change; repaired']);
});
