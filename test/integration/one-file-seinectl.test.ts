import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { runAnyway } from '../../lab/machine/process.ts';
import { EmptyRoot } from '../support/empty-root.ts';

/** `npm run build:seinectl`: the file needs a kernel, `/proc`, a writable folder, and root; and leaves nothing. */
const root = new EmptyRoot();
const signal = AbortSignal.timeout(120_000);

beforeAll(async () => {
  await root.build(signal);
});
afterAll(() => {
  root.remove();
});

it('runs in an empty root', async () => {
  expect(await root.run(['--version'], signal)).toMatchObject({
    code: 0,
    stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    stderr: '',
    left: '',
  });
});

it('has the exit code of seinectl', async () => {
  expect(await root.run(['status'], signal)).toMatchObject({ code: 3, stderr: expect.stringContaining('no agent answers'), left: '' });
  const checked = await root.run(['check'], signal);
  expect([checked.code, checked.stdout]).toEqual([3, expect.stringMatching(/^PROBLEM {2}cni\.config/m)]);
});

it('makes system calls and reads nftables, with its own libraries', async () => {
  const { stdout, left } = await root.run(['node', 'cleanup'], signal, 'nft add table inet seine');
  expect([stdout, left]).toEqual(['would remove  nftables table inet seine\n', '']);
});

it('forwards arguments and input, and leaves nothing', async () => {
  const socket = `${root.file}.sock`;
  let child: ChildProcess | undefined;
  const silent = createServer(() => child?.kill('SIGTERM')).listen(socket);
  await once(silent, 'listening');
  const own = () => readdirSync('/run').filter((name) => name.startsWith('seinectl-'));
  const before = own();
  child = spawn(root.file, ['status', '--socket', socket], { stdio: 'ignore' });
  expect(await once(child, 'exit')).toEqual([143, null]);
  expect(own()).toEqual(before);
  silent.close();
});

it('reports what it needs', async () => {
  const asUnusedUid = ['--reuid=65534', '--regid=65534', '--clear-groups', root.file, '--version'];
  expect(await runAnyway('setpriv', asUnusedUid, {}, signal)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining('seinectl: needs to be root'),
  });
});
