import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { TestOvsdbServer } from './ovsdb-server.ts';

const main = join(import.meta.dirname, '..', '..', 'src', 'seinectl', 'main.ts');

let server: TestOvsdbServer;
let watcher: ChildProcessWithoutNullStreams | undefined;
let out: string;
let err: string;

beforeEach(async () => {
  server = new TestOvsdbServer();
  await server.start();
  server.vsctl('init', '--', 'add-br', 'br0');
});

afterEach(async () => {
  watcher?.kill();
  await server.remove();
});

function watch(...args: readonly string[]): ChildProcessWithoutNullStreams {
  out = '';
  err = '';
  const started = spawn(process.execPath, [main, 'wire', 'watch', ...args]);
  started.stdout.on('data', (chunk) => (out += String(chunk)));
  started.stderr.on('data', (chunk) => (err += String(chunk)));
  watcher = started;
  return started;
}

async function until(condition: () => boolean): Promise<void> {
  while (!condition()) await new Promise((resolve) => setTimeout(resolve, 5));
}

async function exitCode(process: ChildProcessWithoutNullStreams): Promise<unknown> {
  const [code] = await once(process, 'close');
  return code;
}

/** The server chooses names of rows. */
function lines(): readonly string[] {
  return out
    .replaceAll(/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}/g, 'UUID')
    .trimEnd()
    .split('\n');
}

describe('seinectl wire watch', () => {
  it('prints each change, survives the server, and prints all rows on request and at the end', async () => {
    const watching = watch(server.socketPath, 'Bridge', 'Mirror');
    await until(() => err.includes('to begin with'));
    server.vsctl('set', 'Bridge', 'br0', 'external_ids:a=x y', 'fail_mode=secure');
    await until(() => out.includes('modify'));
    await server.kill();
    await until(() => err.includes('connection lost'));
    await server.start();
    await until(() => err.includes('connected again'));
    server.vsctl('set', 'Bridge', 'br0', 'external_ids:b=\u001b[2J', '--', 'remove', 'Bridge', 'br0', 'external_ids', 'a');
    await until(() => lines().length === 2);
    watching.kill('SIGUSR1');
    await until(() => lines().length === 5);
    server.vsctl('del-br', 'br0');
    await until(() => lines().length === 6);
    watching.stdin.end();
    expect(await exitCode(watching)).toBe(0);
    const row = 'external_ids={b="\\u001b[2J"} fail_mode=secure';
    const reported = lines();
    expect(reported.slice(0, 2)).toEqual([
      'modify Bridge UUID fail_mode: [] -> secure; external_ids: {} -> {a="x y"}',
      'modify Bridge UUID external_ids: {a="x y"} -> {b="\\u001b[2J"}',
    ]);
    expect(reported[2]).toBe('Bridge: 1 row');
    for (const part of ['  UUID ', ' name=br0', ...row.split(' ')]) expect(reported[3]).toContain(part);
    expect(reported[4]).toBe('Mirror: 0 rows');
    expect(reported[5]).toMatch(/^delete Bridge UUID .*name=br0/);
    expect(reported.slice(6)).toEqual(['Bridge: 0 rows', 'Mirror: 0 rows']);
  });

  it('writes JSON for programs, integers exact', async () => {
    const watching = watch(`unix:${server.socketPath}`, '--json', 'Open_vSwitch');
    await until(() => err.includes('to begin with'));
    server.vsctl('set', 'Open_vSwitch', '.', 'next_cfg=9223372036854775807');
    await until(() => out !== '');
    watching.stdin.end();
    expect(await exitCode(watching)).toBe(0);
    const [change = '', replica = ''] = lines();
    expect(change).toMatch(
      /^\{"change":"modify","table":"Open_vSwitch","uuid":"UUID","before":\{"next_cfg":\d+\},"after":\{"next_cfg":9223372036854775807\}\}$/,
    );
    expect(replica).toContain('"next_cfg":9223372036854775807');
    expect(JSON.parse(replica)).toMatchObject({
      replica: { Open_vSwitch: { UUID: { bridges: ['UUID'], ovs_version: null, external_ids: {} } } },
    });
  });

  it.each([
    [['Prt'], 2, 'Open_vSwitch has no table Prt; it has AutoAttach, Bridge,'],
    [['--database', 'X'], 2, 'the server has no database X; it has Open_vSwitch, _Server'],
  ])('refuses %j', async (args, code, complaint) => {
    expect(await exitCode(watch(server.socketPath, ...args))).toBe(code);
    expect(err).toContain(complaint);
    expect(out).toBe('');
  });

  it('names a server that does not answer, and unreadable input', async () => {
    expect(await exitCode(watch('/nowhere/db.sock'))).toBe(3);
    expect(err).toContain('connect ENOENT /nowhere/db.sock');
    expect(await exitCode(watch('ssl:127.0.0.1:1'))).toBe(2);
    expect(err).toContain('ssl: needs --private-key, --certificate and --ca-cert');
  });
});
