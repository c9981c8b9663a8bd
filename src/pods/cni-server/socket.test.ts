import { Buffer } from 'node:buffer';
import { existsSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { connect, createServer, type Socket } from 'node:net';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { CniBench, codeOf, replyOn } from '../../../test/support/cni-bench.ts';
import { encodeRequest } from '../../cni/wire.ts';

let bench: CniBench;
beforeEach(async () => {
  bench = await new CniBench().start();
});
afterEach(() => bench.remove());

describe('the socket', () => {
  it('is for root alone', async () => {
    expect(statSync(bench.socketPath).mode & 0o777).toBe(0o600);
    expect(statSync(dirname(bench.socketPath)).mode & 0o777).toBe(0o700);
    bench.peerUid = 1000;
    expect(codeOf(await bench.call('ADD', 'a', { deadline: 0.1 }))).toBe(11);
    expect(bench.ipam.leases()).toEqual([]);
  });

  it('of a live agent is not taken over', async () => {
    await expect(bench.listen()).rejects.toMatchObject({ code: 'REFUSED', message: expect.stringContaining('another agent listens') });
    await expect(bench.start()).rejects.toMatchObject({ code: 'REFUSED', message: expect.stringContaining('ipam.journal') });
    expect(codeOf(await bench.call('STATUS', ''))).toBe(0);
  });

  it('drops an invalid request, and continues', async () => {
    for (const bytes of [
      Buffer.from('GET / HTTP/1.1\r\n\r\n'),
      Buffer.from([0xff, 0xff, 0xff, 0xff]),
      Buffer.from([0, 0, 0, 2, 0x7b, 0x7d, 0x7d]),
    ]) {
      const socket = connect(bench.socketPath);
      socket.write(bytes);
      await new Promise((resolve) => socket.once('close', resolve).on('error', () => {}));
    }
    const socket = connect(bench.socketPath);
    socket.write(Buffer.from([0, 0, 0, 2, 0x7b, 0x7d]));
    expect(JSON.parse((await replyOn(socket)).stdout)).toMatchObject({ code: 106 });
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
  });

  it('closes a connection that sends no request, within 2 s', async () => {
    const socket = connect(bench.socketPath);
    const beganMs = performance.now();
    socket.write(Buffer.from([0, 0]));
    await new Promise((resolve) => socket.once('close', resolve).on('error', () => {}));
    expect(performance.now() - beganMs).toBeLessThan(10_000); // 2 s, and what a busy host adds
  });

  it('serves plugins while one client has opened more connections than it serves at a time', async () => {
    const sockets: Socket[] = [];
    for (let opened = 0; opened < 1_100; opened++) {
      const socket = connect(bench.socketPath).on('error', () => {});
      sockets.push(socket);
      await new Promise((resolve) => socket.once('connect', resolve));
    }
    expect(codeOf(await bench.call('STATUS', ''))).toBe(0);
    expect(codeOf(await bench.call('ADD', 'a'))).toBe(0);
    for (const socket of sockets) socket.destroy();
  });

  it('reads a request in any chunks', async () => {
    const env = { CNI_COMMAND: 'VERSION' };
    const body = Buffer.from(encodeRequest({ env, conf: '', deadlineMs: 1_000, attempt: 1 }));
    const header = Buffer.alloc(4);
    header.writeUInt32BE(body.length);
    const socket = connect(bench.socketPath);
    socket.setNoDelay(true);
    for (const byte of Buffer.concat([header, body])) {
      socket.write(Buffer.from([byte]));
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect((await replyOn(socket)).exit).toBe(0);
  });
});

it('replaces the socket of an agent that died, and no other file', async () => {
  await bench.stop();
  const dead = createServer();
  await new Promise<void>((resolve) => dead.listen(join(bench.folder, 'dead.sock'), resolve));
  renameSync(join(bench.folder, 'dead.sock'), bench.socketPath);
  await new Promise((resolve) => dead.close(resolve));
  expect(existsSync(bench.socketPath)).toBe(true);
  await bench.start();
  expect(codeOf(await bench.call('STATUS', ''))).toBe(0);
  await bench.stop();
  writeFileSync(bench.socketPath, 'precious');
  await expect(bench.start()).rejects.toMatchObject({ code: 'INVALID_INPUT' });
});
