import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { DaemonSet } from 'kubernetes-types/apps/v1.d.ts';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { manifestParts } from '../../build/manifests/manifest.ts';
import { defaultOptions } from '../../build/manifests/options.ts';
import { silentLog } from '../../src/base/log/log.ts';
import { type ApiRoutes, json, text } from '../../src/operations/admin/answer.ts';
import { ApiServer } from '../../src/operations/admin/http-server.ts';

/*
 * The kubelet's probes of the agent: the plugin's program sends a request to the agent's socket.
 */

const root = resolve(import.meta.dirname, '../..');
const programs = { native: [join(root, 'dist/bin/seine')], node: [process.execPath, join(root, 'dist/bin/seine-node.mjs')] } as const;
const folder = mkdtempSync(join(tmpdir(), 'seine-probe-'));
const socketPath = join(folder, 'agent.sock');

beforeAll(() => {
  execFileSync(process.execPath, [join(root, 'build/build-shim.mjs')], { stdio: 'inherit' });
}, 120_000);
afterAll(() => rmSync(folder, { recursive: true }));

interface ProbeRun {
  readonly exit: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs with a standard input that never ends. */
function run([program, ...first]: readonly [string, ...string[]], ...words: readonly string[]): Promise<ProbeRun> {
  const child = spawn(program, [...first, ...words], { env: {}, stdio: 'pipe' });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (part: string) => (output.stdout += part));
  child.stderr.setEncoding('utf8').on('data', (part: string) => (output.stderr += part));
  return new Promise((settle, reject) => {
    child.on('error', reject);
    child.on('close', (exit) => settle({ exit, ...output }));
  });
}

const ends: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const end of ends.splice(0)) await end();
});

async function agent(routes: ApiRoutes): Promise<void> {
  const server = await ApiServer.start({ routes }, { socketPath, log: silentLog });
  ends.push(() => server.close());
}

/** A process that is not an agent. */
async function listener(act: (socket: Socket) => unknown): Promise<void> {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => undefined));
    act(socket);
  });
  await new Promise<void>((settle) => server.listen(socketPath, settle));
  ends.push(() => {
    for (const socket of sockets) socket.destroy();
    return new Promise((settle) => server.close(settle));
  });
}

describe.each(['native', 'node'] as const)('the probe, %s', (kind) => {
  const probe = (...words: readonly string[]) => run(programs[kind], '--probe', ...words);

  it('succeeds for an agent that lives and is ready, without output', async () => {
    await agent({ '/livez': () => text('ok'), '/readyz': () => json({ state: 'ready' }) });
    expect(await probe('livez', socketPath)).toEqual({ exit: 0, stdout: '', stderr: '' });
    expect(await probe('readyz', socketPath)).toEqual({ exit: 0, stdout: '', stderr: '' });
  });
  it('reports why an agent is not ready, which lives all the same', async () => {
    await agent({ '/livez': () => text('ok'), '/readyz': () => json({ state: 'impaired', reason: 'no switch' }, 503) });
    const { exit, stderr } = await probe('readyz', socketPath);
    expect([exit, stderr]).toEqual([1, expect.stringContaining('no switch')]);
    expect((await probe('livez', socketPath)).exit).toBe(0);
  });
  it('reports what a roll-out has to wait for, with an agent that is ready', async () => {
    await agent({
      '/readyz': () => json({ state: 'ready' }),
      '/readyz/rollout': () => json({ state: 'starting', reason: 'no rights' }, 503),
    });
    expect((await probe('readyz', socketPath)).exit).toBe(0);
    expect(await probe('readyz/rollout', socketPath)).toMatchObject({ exit: 1, stderr: expect.stringContaining('no rights') });
  });
  it('treats an agent with too many requests as alive', async () => {
    await agent({ '/livez': () => text('too many requests at once', 503) });
    expect((await probe('livez', socketPath)).exit).toBe(0);
  });
  it('fails if no process listens, if no answer comes in time, and if the answer is invalid', async () => {
    expect(await probe('livez', socketPath)).toMatchObject({
      exit: 1,
      stderr: expect.stringMatching(/agent\.sock: .*(ENOENT|No such file)/),
    });
    await listener(() => undefined);
    const beginMs = performance.now();
    expect(await probe('livez', socketPath, '1')).toMatchObject({ exit: 1, stderr: expect.stringContaining('timed out') });
    expect(performance.now() - beginMs).toBeLessThan(4_000);
    for (const end of ends.splice(0)) await end();
    await listener((socket) => socket.end('nonsense\r\n\r\n'));
    expect((await probe('livez', socketPath)).exit).toBe(1);
    for (const end of ends.splice(0)) await end();
    await listener((socket) => socket.write('HTTP/1.1 2'));
    expect((await probe('livez', socketPath, '1')).exit).toBe(1);
  });
  it.each([
    [],
    ['livez'],
    ['metrics', '/x'],
    ['livez', '/x', '0'],
    ['livez', '/x', '1s'],
    ['livez', '/x', '1', 'more'],
    ['readyz/x', '/x'],
  ])('rejects the command line %j', async (...words) => {
    expect(await probe(...words)).toMatchObject({
      exit: 2,
      stdout: '',
      stderr: expect.stringContaining('livez|readyz|readyz/rollout SOCKET'),
    });
  });
});

describe('the manifest', () => {
  const socket = '/run/seine/other.sock';
  it.each([{}, { metricsAddress: '' }, { metricsAddress: '127.0.0.1:9' }, { apiSocket: socket }])(
    'probes the agent over its socket, configured %j',
    (configured) => {
      const objects = manifestParts({ ...defaultOptions, agent: configured }).map(({ object }) => object);
      const probes = objects
        .filter((object) => object.kind === 'DaemonSet')
        .flatMap((object) => (object as DaemonSet).spec?.template.spec?.containers ?? [])
        .flatMap(({ startupProbe, livenessProbe, readinessProbe }) => [startupProbe, livenessProbe, readinessProbe])
        .filter((each) => each !== undefined);
      expect(probes.map(({ httpGet, tcpSocket, grpc }) => httpGet ?? tcpSocket ?? grpc)).toEqual(probes.map(() => undefined));
      const asked = probes.map(({ exec }) => exec?.command ?? []).filter((command) => command.includes('--probe'));
      const [, , , at] = asked[0] ?? [];
      expect(at).toBe(Object.hasOwn(configured, 'apiSocket') ? socket : '/run/seine/agent.sock');
      expect(asked.map((command) => command.slice(1))).toEqual(['livez', 'livez', 'readyz/rollout'].map((what) => ['--probe', what, at]));
    },
  );
});
