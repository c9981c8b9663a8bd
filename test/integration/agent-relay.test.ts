import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, get } from 'node:http';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { Duplex } from 'node:stream';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../src/base/log/log.ts';
import { type ApiRoutes, json } from '../../src/operations/admin/answer.ts';
import { ApiServer } from '../../src/operations/admin/http-server.ts';

/*
 * The exec relay: the plugin's program copies its standard streams to the agent's socket.
 */

const root = resolve(import.meta.dirname, '../..');
const programs = { native: [join(root, 'dist/bin/seine')], node: [process.execPath, join(root, 'dist/bin/seine-node.mjs')] } as const;
const folder = mkdtempSync(join(tmpdir(), 'seine-relay-'));
const socketPath = join(folder, 'agent.sock');

beforeAll(() => {
  execFileSync(process.execPath, [join(root, 'build/build-shim.mjs')], { stdio: 'inherit' });
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true }));

const ends: (() => unknown)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function agent(routes: ApiRoutes): Promise<void> {
  const server = await ApiServer.start({ routes }, { socketPath, log: silentLog });
  ends.push(() => server.close());
}

describe.each(['native', 'node'] as const)('the relay, %s', (kind) => {
  function start(...words: readonly string[]) {
    const [program, ...first] = programs[kind];
    const child = spawn(program, [...first, '--join', ...words], { env: {}, stdio: 'pipe' });
    ends.push(() => child.kill('SIGKILL'));
    const exited = new Promise<number | null>((settle) => child.on('exit', settle));
    let stderr = '';
    child.stderr.setEncoding('utf8').on('data', (part: string) => (stderr += part));
    return { child, exited, stderr: () => stderr };
  }

  /** Requests over one relay. */
  function client(child: ReturnType<typeof start>['child']): (path: string) => Promise<string> {
    const stream = Duplex.from({ readable: child.stdout, writable: child.stdin });
    const agent = new (class extends Agent {
      override createConnection = () => stream;
      override keepSocketAlive = () => true;
      override reuseSocket = () => undefined;
    })({ keepAlive: true, maxSockets: 1 });
    ends.push(() => agent.destroy());
    return (path) =>
      new Promise((settle, reject) => {
        get({ agent, host: 'agent', path }, (response) => {
          let body = '';
          response.setEncoding('utf8').on('data', (part: string) => (body += part));
          response.on('end', () => settle(body));
        }).on('error', reject);
      });
  }

  it('carries many requests over one connection, also after a pause and with long answers', async () => {
    const long = 'x'.repeat(3_000_000);
    await agent({ '/v1/one': () => json({ one: 1 }), '/v1/long': () => json({ long }) });
    const { child } = start(socketPath);
    const ask = client(child);
    expect(JSON.parse(await ask('/v1/one'))).toEqual({ one: 1 });
    expect(JSON.parse(await ask('/v1/long'))).toEqual({ long });
    // Longer than the agent's limit for a connection without a request.
    await new Promise((settle) => setTimeout(settle, 2_500));
    expect(JSON.parse(await ask('/v1/one'))).toEqual({ one: 1 });
    expect(child.exitCode).toBeNull();
  });

  it('ends when its client has gone', async () => {
    await agent({ '/v1/one': () => json({ one: 1 }) });
    const { child, exited } = start(socketPath);
    await client(child)('/v1/one');
    child.stdin.end();
    expect(await exited).toBe(0);
  });

  it('ends with the agent', async () => {
    await agent({ '/v1/one': () => json({ one: 1 }) });
    const { child, exited } = start(socketPath);
    await client(child)('/v1/one');
    for (const end of ends.splice(-1)) await end();
    for (const end of ends.splice(0, 1)) await end();
    expect(await exited).toBe(0);
  });

  it('reports that no agent listens', async () => {
    const { exited, stderr } = start(join(folder, 'absent.sock'));
    expect(await exited).toBe(1);
    expect(stderr()).toMatch(/^seine: the agent at .*absent\.sock: .*(ENOENT|No such file)/);
  });

  it.each([[], ['/x', 'more']])('rejects the command line %j', async (...words) => {
    const { exited, stderr } = start(...words);
    expect(await exited).toBe(2);
    expect(stderr()).toBe('seine: --join SOCKET\n');
  });
});
