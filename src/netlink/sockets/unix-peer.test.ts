import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { descriptorOf, peerCredentials } from './unix-peer.ts';

it('returns the process at the other end of a unix socket', async () => {
  const path = join(tmpdir(), `seine-${process.pid}-${Math.random().toString(36).slice(2)}`);
  const server = createServer().listen(path);
  const accepted = new Promise<Socket>((resolve) => server.once('connection', resolve));
  await new Promise((resolve) => server.once('listening', resolve));
  const client = connect(path);
  await once(client, 'connect');
  const connection = await accepted;
  expect(peerCredentials(descriptorOf(connection))).toEqual({ pid: process.pid, uid: process.getuid?.(), gid: process.getgid?.() });
  client.destroy();
  connection.destroy();
  expect(() => descriptorOf(connection)).toThrow('UNAVAILABLE');
  server.close();
});
