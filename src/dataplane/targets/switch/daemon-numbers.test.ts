import { randomBytes } from 'node:crypto';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { askDaemonNumbers, numberIn } from './daemon-numbers.ts';

const signal = AbortSignal.timeout(30_000);
let runDir: string;
let server: Server | undefined;

beforeEach(() => {
  runDir = mkdtempSync(join('/tmp', `dn-${randomBytes(2).toString('hex')}`));
});

afterEach(() => {
  server?.close();
  server = undefined;
  rmSync(runDir, { recursive: true });
});

/** Daemon that answers each method with the given value, and others with an error. */
async function daemon(answers: Readonly<Record<string, unknown>>): Promise<void> {
  writeFileSync(join(runDir, 'ovs-vswitchd.pid'), '4711\n');
  server = createServer((socket) => {
    socket.on('data', (bytes) => {
      for (const request of bytes.toString('utf8').split(/(?<=\})(?=\{)/)) {
        const { id, method, params } = JSON.parse(request) as { id: number; method: string; params: string[] };
        const result = answers[[method, ...params].join(' ')];
        socket.write(JSON.stringify(result === undefined ? { id, error: 'No such counter\n', result: null } : { id, error: null, result }));
      }
    });
  });
  await new Promise<void>((resolve) => server?.listen(join(runDir, 'ovs-vswitchd.4711.ctl'), resolve));
}

it('returns numbers, and undefined for other answers', async () => {
  await daemon({ count: '12\n', 'read one': '0', text: '12 entries\n' });
  const commands = [{ command: 'count' }, { command: 'read', arguments: ['one'] }, { command: 'text' }, { command: 'unknown' }];
  expect(await askDaemonNumbers(runDir, commands, signal)).toEqual([12, 0, undefined, undefined]);
});

it('reports that no daemon runs', async () => {
  await expect(askDaemonNumbers(runDir, [{ command: 'count' }], signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  writeFileSync(join(runDir, 'ovs-vswitchd.pid'), '../../etc\n');
  await expect(askDaemonNumbers(runDir, [{ command: 'count' }], signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
  writeFileSync(join(runDir, 'ovs-vswitchd.pid'), '4711\n');
  await expect(askDaemonNumbers(runDir, [{ command: 'count' }], signal)).rejects.toMatchObject({ code: 'UNAVAILABLE' });
});

it('accepts only a single number', () => {
  for (const wrong of ['', '-1', '1.5', '1 2', ' 1', '0x10', '1'.repeat(16), 12, null, ['12']]) expect(numberIn(wrong)).toBeUndefined();
});
