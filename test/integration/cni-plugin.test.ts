import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { seineVersion } from '../../src/api/version.ts';
import { deletionFilesMax } from '../../src/cni/deletions.ts';
import { cniVersions } from '../../src/cni/versions.ts';
import { stdinBytesMax } from '../../src/cni/wire.ts';
import { CniBench, type PluginRun } from '../support/cni-bench.ts';

/** Waits for what comes soon, and long enough for a busy host. */
const eventually = (check: () => unknown) => vi.waitFor(check, { timeout: 10_000 });

/*
 * The plugin as a separate program, native and on Node, with a CNI server and a fake data plane.
 */

const root = resolve(import.meta.dirname, '../..');
const native = join(root, 'dist/bin/seine');
const onNode = join(root, 'dist/bin/seine-node.mjs');

beforeAll(() => {
  execFileSync(process.execPath, [join(root, 'build/build-shim.mjs')], { stdio: 'inherit' });
}, 120_000);

interface Started {
  readonly done: Promise<PluginRun>;
  readonly kill: (signal: NodeJS.Signals) => void;
}

function start(program: string, env: Readonly<Record<string, string | undefined>>, stdin: string): Started {
  const arguments_ = program.endsWith('.mjs') ? [program] : [];
  const child = spawn(arguments_.length > 0 ? process.execPath : program, arguments_, { env: { ...env }, stdio: 'pipe' });
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  child.stdin.on('error', () => {});
  child.stdin.end(stdin);
  const done = new Promise<PluginRun>((settle, reject) => {
    child.on('error', reject);
    child.on('close', (code) => settle({ exit: code ?? -1, ...output }));
  });
  return { done, kill: (signal) => child.kill(signal) };
}

/** A process on the agent's socket that is not an agent. */
async function strangeAgent(path: string, act: (socket: Socket) => void): Promise<{ called: Promise<void>; stop: () => Promise<void> }> {
  const sockets: Socket[] = [];
  let onCall = () => {};
  const called = new Promise<void>((settle) => (onCall = settle));
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
    act(socket);
    onCall();
  });
  await new Promise<void>((settle) => server.listen(path, settle));
  const stop = async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((settle) => server.close(settle));
  };
  return { called, stop };
}

function variables(command: string, containerId: string): Readonly<Record<string, string>> {
  return {
    CNI_COMMAND: command,
    CNI_CONTAINERID: containerId,
    CNI_NETNS: `/run/netns/${containerId}`,
    CNI_IFNAME: 'eth0',
    CNI_PATH: '/usr/lib/cni',
  };
}

function conf(extra: Readonly<Record<string, unknown>> = {}): string {
  return JSON.stringify({ cniVersion: '1.1.0', name: 'seine', type: 'seine', deadline: 5, ...extra });
}

const codeOf = ({ exit, stdout }: PluginRun) => (exit === 0 ? 0 : (JSON.parse(stdout) as { code: number }).code);

describe.each([
  ['native', native],
  ['on Node', onNode],
])('the plugin, %s', (_, program) => {
  let bench: CniBench;
  beforeEach(async () => {
    bench = new CniBench();
    bench.real = true;
    await bench.start();
  });
  afterEach(() => bench.remove());

  const run = (command: string, id: string, extra: Readonly<Record<string, unknown>> = {}) =>
    start(program, variables(command, id), bench.aim(conf(extra))).done;

  it('adds, checks and deletes in every version', async () => {
    for (const cniVersion of cniVersions) {
      const added = await run('ADD', `c${cniVersion}`, { cniVersion });
      expect(added).toMatchObject({ exit: 0, stderr: '' });
      const prevResult = JSON.parse(added.stdout) as Record<string, unknown>;
      expect(prevResult['cniVersion']).toBe(cniVersion);
      const check = await run('CHECK', `c${cniVersion}`, { cniVersion, prevResult });
      expect(codeOf(check)).toBe(cniVersion < '0.4.0' ? 1 : 0);
      expect(await run('DEL', `c${cniVersion}`, { cniVersion, prevResult })).toMatchObject({ exit: 0, stdout: '', stderr: '' });
    }
    expect(bench.network.wired.size).toBe(0);
  });

  it('prints its version on request by argument, without calling the agent', () => {
    const [command, args] = program.endsWith('.mjs') ? [process.execPath, [program, '--version']] : [program, ['--version']];
    expect(execFileSync(command, args, { env: {}, encoding: 'utf8' })).toBe(`seine ${seineVersion}\n`);
  });

  it('waits for an agent that restarts', async () => {
    await bench.stop();
    const dying = await strangeAgent(bench.socketPath, (socket) => socket.destroy());
    const adding = start(program, variables('ADD', 'a'), bench.aim(conf()));
    await dying.called;
    await dying.stop();
    await bench.start();
    expect(await adding.done).toMatchObject({ exit: 0 });
  });

  it('retries within its memory limit, with a configuration of the maximum size', async () => {
    await bench.stop();
    let asked = 0;
    const answer = { header: Buffer.from([0, 0, 0, 28]), body: '{"v":1,"exit":0,"stdout":""}' };
    const dying = await strangeAgent(bench.socketPath, (socket) =>
      socket.once('data', () => {
        if (++asked < 20) socket.destroy();
        else socket.end(Buffer.concat([answer.header, Buffer.from(answer.body)]));
      }),
    );
    const text = conf({ deadline: 50, comment: 'x'.repeat(stdinBytesMax - 1_000) });
    const added = await start(program, variables('ADD', 'a'), bench.aim(text)).done;
    await dying.stop();
    expect(added).toMatchObject({ exit: 0, stderr: '' });
    expect(asked).toBe(20);
  });

  it('retries when the agent dies in the middle, and has one pod in the end', async () => {
    let open = () => {};
    bench.network.gate = new Promise((settle) => (open = settle));
    const adding = start(program, variables('ADD', 'a'), bench.aim(conf()));
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    const stopping = bench.stop();
    open();
    await stopping;
    await bench.start();
    expect(await adding.done).toMatchObject({ exit: 0 });
    expect(bench.network.wired.size).toBe(1);
    expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 1 });
  });

  it('that is killed leaves nothing behind', async () => {
    let open = () => {};
    bench.network.gate = new Promise((settle) => (open = settle));
    const adding = start(program, variables('ADD', 'a'), bench.aim(conf()));
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    adding.kill('SIGKILL');
    await adding.done;
    open();
    await eventually(() => expect(bench.ipam.usage()[0]).toMatchObject({ allocated: 0 }));
    expect(bench.network.wired.size).toBe(0);
  });

  it('is not affected by being stopped for a while', async () => {
    let open = () => {};
    bench.network.gate = new Promise((settle) => (open = settle));
    const adding = start(program, variables('ADD', 'a'), bench.aim(conf()));
    await eventually(() => expect(bench.ipam.leases()).toHaveLength(1));
    for (let round = 0; round < 5; round++) for (const signal of ['SIGSTOP', 'SIGCONT'] as const) adding.kill(signal);
    open();
    expect(await adding.done).toMatchObject({ exit: 0, stderr: '' });
  });

  it('records a DEL without an agent, readable by root only', async () => {
    await run('ADD', 'a');
    await bench.stop();
    const deleted = await run('DEL', 'a', { deadline: 0.1 });
    expect(deleted).toMatchObject({ exit: 0, stdout: '' });
    expect(deleted.stderr).toContain('DEL recorded');
    const folder = join(bench.stateDir, 'deletions');
    const [name = ''] = readdirSync(folder);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600);
    await bench.start();
    await eventually(() => expect(readdirSync(folder)).toEqual([]));
    expect(bench.network.wired.size).toBe(0);
  });

  it('records no more DELs than the folder may have, and then lets the runtime retry', async () => {
    await bench.stop();
    await run('DEL', 'a', { deadline: 0.05 });
    const folder = join(bench.stateDir, 'deletions');
    for (let file = 1; file < deletionFilesMax; file++) writeFileSync(join(folder, `other-${file}`), '');
    const refused = await run('DEL', 'b', { deadline: 0.05 });
    expect(codeOf(refused)).toBe(11);
    expect(refused.stdout).toContain('No space left on device');
    expect(codeOf(await run('DEL', 'a', { deadline: 0.05 })), 'what is recorded already').toBe(0);
    expect(readdirSync(folder)).toHaveLength(deletionFilesMax);
  });

  it('fails a DEL that it cannot record', async () => {
    await bench.stop();
    const run = await start(program, variables('DEL', 'a'), conf({ agentSocket: bench.socketPath, stateDir: '/proc/none', deadline: 0.05 }))
      .done;
    expect(codeOf(run)).toBe(11);
    expect(run.stdout).toContain('not recorded in /proc/none/deletions');
  });

  it('answers STATUS without an agent with 50, at its deadline', async () => {
    await bench.stop();
    const startedMs = performance.now();
    const status = await run('STATUS', '', { deadline: 0.3 });
    expect(codeOf(status)).toBe(50);
    expect(performance.now() - startedMs).toBeLessThan(statusWithinMs);
  });

  it('answers STATUS of an agent that restarts as the next one does', async () => {
    await bench.stop();
    const asked = run('STATUS', '');
    await bench.start();
    expect(await asked).toMatchObject({ exit: 0, stdout: '' });
  });

  it('answers STATUS immediately after a reboot, until an agent serves it', async () => {
    await bench.stop();
    bench.bootId = 'an earlier one';
    await bench.start();
    await bench.stop();
    const startedMs = performance.now();
    expect(codeOf(await run('STATUS', '', { deadline: 60 }))).toBe(50);
    expect(performance.now() - startedMs).toBeLessThan(statusWithinMs);
  });

  it('gives up on an agent that accepts the call and never answers', async () => {
    await bench.stop();
    const hanging = await strangeAgent(bench.socketPath, () => {});
    expect(codeOf(await run('ADD', 'a', { deadline: 0.3 }))).toBe(11);
    const askedMs = performance.now();
    expect(codeOf(await run('STATUS', '', { deadline: 0.3 }))).toBe(50);
    expect(performance.now() - askedMs).toBeLessThan(statusWithinMs);
    expect(codeOf(await run('DEL', 'a', { deadline: 0.3 }))).toBe(0);
    await hanging.stop();
  });

  it('rejects an answer that is too large or missing', async () => {
    await bench.stop();
    const answers = [Buffer.from([0x7f, 0xff, 0xff, 0xff]), Buffer.concat([Buffer.from([0, 0, 0, 2]), Buffer.from('no')])];
    for (const [index, bytes] of answers.entries()) {
      const strange = await strangeAgent(bench.socketPath, (socket) => socket.write(bytes));
      expect(codeOf(await run('ADD', 'a'))).toBe([11, 106][index]);
      await strange.stop();
    }
  });

  it('reads a configuration of up to a mebibyte', async () => {
    const fits = bench.aim(conf({ note: 'x'.repeat(1_000_000) }));
    expect(await start(program, variables('ADD', 'a'), fits).done).toMatchObject({ exit: 0 });
    const tooLarge = bench.aim(conf({ note: 'x'.repeat(1_100_000) }));
    expect(codeOf(await start(program, variables('ADD', 'b'), tooLarge).done)).toBe(5);
  });

  it('reports a path that is too long for a socket', async () => {
    const agentSocket = `/${'é'.repeat(80)}`;
    const run = await start(program, variables('ADD', 'a'), conf({ agentSocket })).done;
    expect(codeOf(run)).toBe(11);
  });
});

it('gives the same answers natively and on Node', async () => {
  const lines = readFileSync(join(root, 'test/fixtures/cni/reference-calls.jsonl'), 'utf8').trim().split('\n');
  const calls = lines.map((line) => JSON.parse(line) as { case: string; env: Record<string, string>; stdin: string });
  const nowhere = (stdin: string) =>
    stdin.replace(/^\{"/, '{"agentSocket": "/nonexistent/cni.sock", "stateDir": "/proc/nonexistent/state", "deadline": 0.001, "');
  for (const call of calls.filter(({ case: name }) => !name.startsWith('CHECK'))) {
    const [natively, node] = await Promise.all([native, onNode].map((program) => start(program, call.env, nowhere(call.stdin)).done));
    expect(natively?.exit, call.case).toBe(node?.exit);
    const [ours, theirs] = [natively, node].map((run) => (run?.stdout ? (JSON.parse(run.stdout) as Record<string, unknown>) : {}));
    expect(ours?.['code'], call.case).toBe(theirs?.['code']);
    // The texts of the system and of the JSON parser are not ours.
    if (![6, 11, 50].includes(Number(ours?.['code']))) expect(ours, call.case).toEqual(theirs);
  }
}, 120_000);

it('starts in a millisecond or two', () => {
  const times: number[] = [];
  for (let round = 0; round < 100; round++) {
    const startedMs = performance.now();
    execFileSync(native, { env: { CNI_COMMAND: 'VERSION' }, input: '{}' });
    times.push(performance.now() - startedMs);
  }
  const [median = 0] = times.toSorted((a, b) => a - b).slice(50);
  console.log(`plugin VERSION: ${median.toFixed(2)} ms, with what Node needs to start a process`);
});

/** It waits 10 s for an agent, or the deadline's time. */
const statusWithinMs = 4_000;

describe('with host-local for addresses', () => {
  const bench = new CniBench();
  const data = mkdtempSync(join(tmpdir(), 'seine-host-local-'));
  const ipam = { type: 'host-local', dataDir: data, ranges: [[{ subnet: '10.97.0.0/24' }]], routes: [{ dst: '0.0.0.0/0' }] };
  const run = (command: string, id: string, extra: Readonly<Record<string, unknown>> = {}) =>
    start(native, variables(command, id), bench.aim(conf({ cniVersion: '1.0.0', ipam, ...extra }))).done;
  const leases = () => readdirSync(join(data, 'seine')).filter((name) => /^\d/.test(name));

  beforeAll(async () => {
    bench.real = true;
    await bench.start();
  });
  afterAll(async () => {
    await bench.remove();
    rmSync(data, { recursive: true, force: true });
  });

  it('allocates its addresses, checks them and releases them', async () => {
    const added = await run('ADD', 'a');
    expect(JSON.parse(added.stdout)).toMatchObject({ ips: [{ address: '10.97.0.2/24', gateway: '10.97.0.1', interface: 1 }] });
    expect(leases()).toEqual(['10.97.0.2']);
    const prevResult = JSON.parse(added.stdout) as unknown;
    expect(await run('CHECK', 'a', { prevResult })).toMatchObject({ exit: 0 });
    rmSync(join(data, 'seine', '10.97.0.2'));
    expect(codeOf(await run('CHECK', 'a', { prevResult }))).toBe(105);
    expect(await run('DEL', 'a')).toMatchObject({ exit: 0 });
    expect(leases()).toEqual([]);
  });

  it('forwards its error when it fails', async () => {
    const failed = await run('ADD', 'b', { ipam: { ...ipam, ranges: [[{ subnet: 'nonsense' }]] } });
    expect(codeOf(failed)).toBe(105);
    expect(failed.stdout).toContain('invalid CIDR address: nonsense');
    expect(codeOf(await run('ADD', 'b', { ipam: { type: 'no-such-plugin' } }))).toBe(7);
  });
});

describe('the namespace of pre-plugged ports', () => {
  const folder = mkdtempSync(join('/run', 'seine-pin-'));
  const path = join(folder, 'netns', 'ports');
  const isNamespace = (): boolean => execFileSync('stat', ['--file-system', '--format=%T', path], { encoding: 'utf8' }).trim() === 'nsfs';
  const identity = (): bigint => statSync(path, { bigint: true }).ino;
  const asking = Buffer.from(JSON.stringify({ v: 1, exit: 0, stdout: '{"cniVersion":"1.1.0"}', pinPorts: true }));
  let agent: Awaited<ReturnType<typeof strangeAgent>>;
  const add = (id: string): Promise<PluginRun> =>
    start(native, variables('ADD', id), conf({ agentSocket: join(folder, 'cni.sock'), stateDir: folder })).done;

  beforeAll(async () => {
    agent = await strangeAgent(join(folder, 'cni.sock'), (socket) => {
      const head = Buffer.alloc(4);
      head.writeUInt32BE(asking.length);
      socket.end(Buffer.concat([head, asking]));
    });
  });
  afterAll(async () => {
    await agent.stop();
    execFileSync('umount', ['--lazy', path]);
    rmSync(folder, { recursive: true });
  });

  it('is created once, by the first of many plugins, and stays without any process', async () => {
    const runs = await Promise.all(Array.from({ length: 8 }, (_, index) => add(`p${index}`)));
    expect(runs).toEqual(runs.map(() => ({ exit: 0, stdout: '{"cniVersion":"1.1.0"}', stderr: '' })));
    expect(isNamespace()).toBe(true);
    const first = identity();
    expect(await add('later')).toMatchObject({ exit: 0, stderr: '' });
    expect(identity()).toBe(first);
    expect(statSync(join(folder, 'netns')).mode & 0o777).toBe(0o700);
    expect(execFileSync('nsenter', [`--net=${path}`, 'ip', '-br', 'link'], { encoding: 'utf8' })).toMatch(/^lo\s[^\n]*\n$/);
  });

  it('is created over the remains of a killed plugin, and not over a link to elsewhere', async () => {
    execFileSync('umount', [path]);
    expect(isNamespace()).toBe(false); // the earlier file
    expect(await add('again')).toMatchObject({ exit: 0, stderr: '' });
    expect(isNamespace()).toBe(true);
    execFileSync('umount', [path]);
    rmSync(path);
    symlinkSync('/etc/hostname', path);
    expect((await add('tricked')).stderr).toContain('no namespace for pre-plugged ports');
    expect(isNamespace()).toBe(false);
    rmSync(path);
    await add('last');
    expect(isNamespace()).toBe(true);
  });
});
