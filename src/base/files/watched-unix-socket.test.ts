import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Server } from 'node:net';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { createLogTo } from '../log/log.ts';
import { WatchedUnixSocket } from './watched-unix-socket.ts';

let folder = '';
let path = '';
let kept: WatchedUnixSocket | undefined;
let reported: { readonly level: string; readonly cause?: string }[] = [];

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seine-kept-'));
  path = join(folder, 'run', 'agent.sock');
  reported = [];
  const log = createLogTo('debug', (line) => reported.push(JSON.parse(line)));
  kept = await WatchedUnixSocket.listen({
    path,
    name: 'test',
    without: 'no client can connect',
    make: () => saying('ours'),
    log,
    checkMs: 10,
  });
});
afterEach(async () => {
  await kept?.close();
  rmSync(folder, { recursive: true, force: true });
});

function saying(word: string): Server {
  return createServer((socket) => socket.on('error', () => undefined).end(word));
}

async function heard(): Promise<string> {
  let all = '';
  const socket = connect(path).setEncoding('utf8');
  socket.on('data', (piece: string) => (all += piece));
  await once(socket, 'close');
  return all;
}

it('keeps a socket that another process listens on by now', async () => {
  const other = saying('theirs').listen(`${path}.new`);
  await once(other, 'listening');
  renameSync(`${path}.new`, path);
  const untilMs = performance.now() + 60; // several checks
  while (performance.now() < untilMs) expect(await heard()).toBe('theirs');
  expect(reported).toEqual([]);
  await new Promise((resolve) => other.close(resolve));
});

it('reports once that it cannot be created, keeps trying, and reports success', async () => {
  rmSync(dirname(path), { recursive: true });
  writeFileSync(dirname(path), 'no folder');
  await expect.poll(() => reported.map(({ level }) => level)).toEqual(['warn', 'error']);
  expect(reported[1]?.cause).toContain('is a link or no folder');
  rmSync(dirname(path));
  await expect.poll(() => existsSync(path)).toBe(true);
  expect(await heard()).toBe('ours');
  await expect.poll(() => reported.map(({ level }) => level)).toEqual(['warn', 'error', 'info']);
});

it('does not replace a socket that another process made meanwhile', async () => {
  rmSync(dirname(path), { recursive: true });
  writeFileSync(dirname(path), 'no folder');
  await expect.poll(() => reported.length).toBe(2);
  const other = saying('theirs').listen(join(folder, 'other'));
  await once(other, 'listening');
  rmSync(dirname(path));
  mkdirSync(dirname(path), { mode: 0o700 });
  renameSync(join(folder, 'other'), path);
  await expect.poll(() => reported.at(-1)?.cause).toContain('another agent listens');
  expect(await heard()).toBe('theirs');
  await new Promise((resolve) => other.close(resolve));
  rmSync(path, { force: true });
  await expect.poll(() => existsSync(path)).toBe(true);
  expect(await heard()).toBe('ours');
});
