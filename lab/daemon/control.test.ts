import { mkdtempSync, rmSync, statSync } from 'node:fs';
import type { Server } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { SeineError } from '../../src/base/errors/seine-error.ts';
import { askControl, followControl, serveControl } from './control.ts';
import { StartProgress } from './start-progress.ts';

let folder: string;
let socket: string;
let server: Server;
let progress: StartProgress;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'seine-control-'));
  socket = join(folder, 'control.sock');
  progress = new StartProgress();
  server = await serveControl(socket, {
    'GET /status': async () => ({ is: 'value', value: { nodes: 3 } }),
    'POST /agents/:node/:verb': async (parameters) => ({ is: 'value', value: parameters }),
    'POST /refuse': async () => {
      throw new SeineError('INVALID_INPUT', 'no node node-9');
    },
    'GET /progress': async () => ({
      is: 'lines',
      each: (tell, ended) =>
        progress.listen((event) => {
          tell(event);
          if (event.is !== 'step') ended();
        }),
    }),
  });
});
afterEach(() => {
  server.close();
  rmSync(folder, { recursive: true });
});

it('is for root alone', () => {
  expect(statSync(socket).mode & 0o777).toBe(0o600);
});

it('answers by method and path, with the parts of the path', async () => {
  expect(await askControl(socket, 'GET', '/status')).toEqual({ nodes: 3 });
  expect(await askControl(socket, 'POST', '/agents/node-1/a%2Fb')).toEqual({ node: 'node-1', verb: 'a/b' });
});

it('returns errors of handlers', async () => {
  await expect(askControl(socket, 'POST', '/refuse')).rejects.toMatchObject({ code: 'REFUSED', message: '[REFUSED] no node node-9' });
  await expect(askControl(socket, 'POST', '/status')).rejects.toThrow('unknown request');
  await expect(askControl(join(folder, 'absent'), 'GET', '/status')).rejects.toMatchObject({ code: 'UNAVAILABLE' });
});

it('delivers all steps, before and after a client connects', async () => {
  progress.step('first');
  const heard: unknown[] = [];
  for await (const line of followControl(socket, '/progress', new AbortController().signal)) {
    heard.push(line);
    if (heard.length === 1) {
      progress.step('second');
      progress.ready();
    }
  }
  expect(heard).toMatchObject([{ is: 'step', text: 'first' }, { is: 'step', text: 'second' }, { is: 'ready' }]);
});
