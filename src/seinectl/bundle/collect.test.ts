import { existsSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { AgentClient } from '../agent-client.ts';
import { plain } from '../paint.ts';
import { collectBundle } from './collect.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-collect-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('leaves no partial archive when it is interrupted', async () => {
  const output = join(folder, 'node.tar.gz');
  const asked = Promise.withResolvers<void>();
  // Agent that only identifies itself.
  const agent = createServer((request, response) => {
    if (request.url === '/v1/config') response.end(JSON.stringify({ nodeName: 'n1', ovsRunDir: folder, stateDir: folder }));
    else asked.resolve();
  });
  const socketPath = join(folder, 'agent.sock');
  await new Promise<void>((resolve) => agent.listen(socketPath, resolve));
  const terminal = { room: { width: Number.POSITIVE_INFINITY, paint: plain }, line: () => {}, remark: () => {} };
  const options = { output, config: join(folder, 'agent.yaml'), log: [] };
  const listeners = process.listenerCount('SIGINT');
  try {
    const collected = collectBundle(new AgentClient(socketPath), options, terminal);
    await asked.promise;
    expect(existsSync(output)).toBe(true);
    process.emit('SIGINT');
    await expect(collected).rejects.toThrow('[CANCELLED] collect was interrupted; no archive is left');
    expect(readdirSync(folder)).toEqual(['agent.sock']);
    expect(process.listenerCount('SIGINT')).toBe(listeners);
  } finally {
    agent.closeAllConnections();
    agent.close();
  }
});

it('writes the archive to standard output, and nothing else there', async () => {
  const lines: string[] = [];
  const terminal = { room: { width: Number.POSITIVE_INFINITY, paint: plain }, line: (text: string) => lines.push(text), remark: () => {} };
  const stdout = new PassThrough();
  const collected = buffer(stdout);
  const options = { output: '-', config: join(folder, 'agent.yaml'), log: [] };
  writeFileSync(options.config, `{nodeName: n1, ovsRunDir: ${folder}, stateDir: ${folder}, apiToken: hunter2}`);
  // Without agent and ovs-vswitchd: parts are missing, and the archive records it.
  expect(await collectBundle(new AgentClient(join(folder, 'none.sock')), options, terminal, stdout)).toBe(1);
  stdout.end();
  const file = join(folder, 'streamed.tar.gz');
  writeFileSync(file, await collected);
  const files = await readArchive(file, () => true);
  expect([...files.keys()]).toContain('manifest.json');
  expect(Buffer.concat([...files.values()]).toString()).not.toContain('hunter2');
  expect(lines).toEqual([]);
  expect(readdirSync(folder).toSorted()).toEqual(['agent.yaml', 'streamed.tar.gz']);
});

it('writes no archive to a terminal', async () => {
  const terminal = { room: { width: 80, paint: plain }, line: () => {}, remark: () => {} };
  const options = { output: '-', config: join(folder, 'agent.yaml'), log: [] };
  const screen = Object.assign(new PassThrough(), { isTTY: true });
  await expect(collectBundle(new AgentClient(join(folder, 'none.sock')), options, terminal, screen)).rejects.toThrow('-o - > FILE');
});
