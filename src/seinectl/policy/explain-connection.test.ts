import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { expect, it } from 'vitest';
import { recordingTerminal } from '../../../test/support/recording-terminal.ts';
import { run } from '../program.ts';

it('a cluster that refuses the question about a past time is no denial: exit 3', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'seine-explain-'));
  const server = createServer((_, response) => response.writeHead(403).end('{"message":"pods is forbidden"}'));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    const kubeconfig = join(folder, 'kubeconfig');
    const cluster = { server: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
    const contexts = [{ name: 'here', context: { cluster: 'here', user: 'me' } }];
    const users = [{ name: 'me', user: { token: 'secret' } }];
    writeFileSync(kubeconfig, JSON.stringify({ clusters: [{ name: 'here', cluster }], users, contexts, 'current-context': 'here' }));
    const { terminal, out, err } = recordingTerminal();
    const args = ['policy', 'explain', 'shop/api', 'shop/db', '5432', '--at', '10m', '--kubeconfig', kubeconfig];
    const code = await run(args, terminal, Readable.from([]));
    expect([code, out, err]).toEqual([3, [], [expect.stringMatching(/^seinectl: .*403/)]]);
  } finally {
    server.close();
    rmSync(folder, { recursive: true });
  }
});

it('an agent that records nothing is no denial: exit 3', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'seine-explain-'));
  const server = createServer((_, response) => response.writeHead(503).end('nothing is recorded: history.size is 0'));
  const socket = join(folder, 'agent.sock');
  await new Promise<void>((resolve) => server.listen(socket, resolve));
  try {
    const { terminal, err } = recordingTerminal();
    const code = await run(['--socket', socket, 'policy', 'explain', 'shop/api', 'shop/db', '--at', '10m'], terminal, Readable.from([]));
    expect([code, err]).toEqual([3, ['seinectl: nothing is recorded: history.size is 0']]);
  } finally {
    server.close();
    rmSync(folder, { recursive: true });
  }
});
