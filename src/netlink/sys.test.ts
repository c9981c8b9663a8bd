import { closeSync, fstatSync, openSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { errnoName, errnoOf } from './errno.ts';
import { interfaceName } from './interface-name.ts';
import { Batch } from './message.ts';
import { namedPath } from './namespace.ts';
import { descriptorOf } from './sockets/unix-peer.ts';
import { loadLibrary, OwnedFd, open, receive, send, socket } from './sys.ts';
import { readSysctl, writeSysctl } from './sysctl.ts';

function thrownBy(action: () => unknown): unknown {
  try {
    action();
  } catch (error) {
    return error;
  }
  return expect.fail('nothing was thrown');
}

it('names errors as errno.h does', () => {
  expect(errnoOf(thrownBy(() => open('/no/such/file', 0, 'file')))).toBe('ENOENT');
  expect([errnoName(17), errnoName(105), errnoName(0), errnoName(99_999)]).toEqual(['EEXIST', 'ENOBUFS', 'errno 0', 'errno 99999']);
});

it('closes a descriptor once, and refuses to use it after that', () => {
  const fd = open('/dev/null', 0, 'null device');
  const { number } = fd;
  fd.close();
  const reused = openSync('/dev/null', 'r');
  try {
    expect(reused).toBe(number); // the kernel allocates the lowest free number, so a second close would close this one
    fd.close();
    expect(fstatSync(reused).isCharacterDevice()).toBe(true);
    expect(() => fd.number).toThrow('[INVARIANT] the null device is closed');
  } finally {
    closeSync(reused);
  }
});

it('transfers a descriptor', () => {
  const fd = open('/dev/null', 0, 'null device');
  const number = fd.release();
  fd.close();
  closeSync(number);
});

it('rejects values that C would misread', () => {
  expect(() => new OwnedFd(2 ** 40, 'x')).toThrow('INVARIANT');
  expect(() => open('/dev/null\0.txt', 0, 'x')).toThrow('INVALID_INPUT');
  expect(() => send(2 ** 32 + 1, Uint8Array.of(1), 'x')).toThrow('not a 32-bit integer');
  expect(() => send(1, new Uint8Array(0), 'x')).toThrow('empty buffer');
  expect(() => socket(1.5, 1, 0, 'x')).toThrow('INVARIANT');
});

it('passes a slice of a buffer as that slice', async () => {
  const path = join(tmpdir(), `seine-${process.pid}-${Math.random().toString(36).slice(2)}`);
  const got: Buffer[] = [];
  const server = createServer((connection) => connection.on('data', (chunk) => got.push(chunk))).listen(path);
  await new Promise((resolve) => server.once('listening', resolve));
  const client = await connected(path);
  const whole = new Uint8Array(100).map((_, index) => index);
  send(descriptorOf(client), whole.subarray(10, 14), 'part');
  await expect.poll(() => Buffer.concat(got).toString('hex')).toBe('0a0b0c0d');
  client.destroy();
  server.close();
});

it('is empty if nothing can be received', () => {
  const fd = socket(16, 3, 0, 'netlink socket');
  expect(receive(fd.number, new Uint8Array(8), 'x')).toBe('empty');
  fd.close();
});

it('does not treat the beginning of a message as all of it', () => {
  const fd = socket(16, 3, 0, 'netlink socket');
  send(fd.number, new Batch().message(18, 0, 'get link 1', (batch) => batch.u32(0).u32(1).u32(0).u32(0)).bytes, 'x');
  expect(() => receive(fd.number, new Uint8Array(64), 'x')).toThrow(/PROTOCOL.*room for 64/);
  fd.close();
});

it('names the Debian package of a library', () => {
  expect(() => loadLibrary(['libnothing.so.9'], 'libnothing9')).toThrow('install the Debian package libnothing9');
});

it('accepts only names that are safe in a path', () => {
  expect(interfaceName('antrea-gw0')).toBe('antrea-gw0');
  for (const bad of ['', '.', '..', 'a/b', 'a b', 'all', 'default', '-x', 'sixteen-letters-', 'ä', 'a\0'])
    expect(() => interfaceName(bad)).toThrow('INVALID_INPUT');
  for (const bad of ['', '..', 'a/b', '.x', '-x', 'a\0', 'x'.repeat(300)]) expect(() => namedPath(bad)).toThrow('INVALID_INPUT');
});

it('reads kernel parameters, and rejects invalid names and values', () => {
  expect(readSysctl(['kernel', 'ostype'])).toBe('Linux');
  expect(() => readSysctl(['..', '..', 'etc', 'passwd'])).toThrow('INVALID_INPUT');
  expect(() => writeSysctl(['kernel', 'ostype'], 'a\nb')).toThrow('INVALID_INPUT');
  expect(errnoOf(thrownBy(() => readSysctl(['net', 'no_such_parameter'])))).toBe('ENOENT');
});

function connected(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const client: Socket = connect(path, () => resolve(client));
    client.once('error', reject);
  });
}
