import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { afterEach, expect, it } from 'vitest';
import { monotonicMs, type StreamQuery, type StreamReport } from './streams.ts';

const started: ChildProcess[] = [];
afterEach(async () => {
  for (const each of started.splice(0)) {
    each.kill('SIGKILL');
    if (each.exitCode === null && each.signalCode === null) await once(each, 'exit');
  }
});

function start(file: string, ...words: readonly string[]): ChildProcess {
  const child = spawn(process.execPath, [join(import.meta.dirname, file), ...words], { stdio: ['pipe', 'pipe', 'inherit'] });
  started.push(child);
  return child;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

/** Runs on loopback: the same programs that a run starts in pods. */
it('streams are answered while their server lives; then they are silent, connections have ended, and packets are lost', async () => {
  const port = await freePort();
  const server = start('stream-server.ts', '127.0.0.1', String(port));
  if (server.stdout === null) throw new Error('no output');
  await once(server.stdout, 'data');
  const client = start('stream-client.ts', JSON.stringify({ hertz: 50, ways: [{ name: 'near ipv4', address: '127.0.0.1', port }] }));
  if (client.stdout === null) throw new Error('no output');
  const answers = createInterface({ input: client.stdout });
  const ask = async (question: StreamQuery): Promise<StreamReport> => {
    const line = once(answers, 'line');
    client.stdin?.write(`${JSON.stringify(question)}\n`);
    return JSON.parse(String((await line)[0])) as StreamReport;
  };
  expect(await ask({ sinceMs: monotonicMs(), withinMs: 30_000 })).toEqual({ silent: [], broken: [], lost: [] });

  server.kill('SIGKILL');
  await once(server, 'exit');
  const goneMs = monotonicMs();
  const { silent, broken } = await ask({ sinceMs: goneMs, withinMs: 500 });
  expect(silent).toEqual(['udp near ipv4', 'connect near ipv4', 'talk near ipv4']);
  expect(broken).toEqual(['talk near ipv4']);
  const { broken: again, lost } = await ask({ sinceMs: monotonicMs(), withinMs: 3_000 });
  expect(again).toEqual([]);
  expect(lost.filter(({ stream }) => stream === 'udp near ipv4').length).toBeGreaterThan(10);
  expect(lost.every(({ atMs }) => atMs >= goneMs - 1_000)).toBe(true);
});
