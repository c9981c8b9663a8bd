import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { AgentClient } from '../agent-client.ts';
import { plain } from '../paint.ts';
import { collectBundle } from './collect.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'seine-collect-'));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

it('leaves no half of an archive when it is interrupted', async () => {
  const output = join(folder, 'node.tar.gz');
  const asked = Promise.withResolvers<void>();
  // An agent that says who it is, and nothing more.
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
