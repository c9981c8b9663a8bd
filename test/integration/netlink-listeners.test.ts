import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterAll, expect, it } from 'vitest';
import { NetlinkSocket } from '../../src/netlink/socket.ts';
import { listeningSockets, listeningSocketsByPort } from '../../src/netlink/sockets/listening-sockets.ts';

const socket = NetlinkSocket.open({ protocol: 'socketDiagnosis' });
afterAll(() => socket.close());

const found = (transport: 'tcp' | 'udp', port: number) =>
  listeningSockets(socket, transport, port).map(({ address, isIpv6Only }) => `${address.text}${isIpv6Only ? ' only' : ''}`);

it.each([
  ['127.0.0.1', false, '127.0.0.1'],
  ['0.0.0.0', false, '0.0.0.0'],
  ['::1', false, '::1 only'],
  ['::', false, '::'],
  ['::', true, ':: only'],
])('finds a TCP server that listens at %s (IPv6 alone: %s), and not its clients', async (host, ipv6Only, address) => {
  const server = createServer().listen({ host, ipv6Only, port: 0 });
  await once(server, 'listening');
  const { port } = server.address() as { readonly port: number };
  expect(found('tcp', port)).toEqual([address]);
  server.close();
  await once(server, 'close');
  expect(found('tcp', port)).toEqual([]);
});

it('reads the user and the backlog of a server', async () => {
  const server = createServer().listen({ host: '127.0.0.1', port: 0, backlog: 37 });
  await once(server, 'listening');
  const { port } = server.address() as { readonly port: number };
  expect(listeningSockets(socket, 'tcp', port)).toMatchObject([{ user: process.getuid?.(), backlog: 37 }]);
  expect(listeningSocketsByPort(socket, 'tcp').get(port)).toEqual(listeningSockets(socket, 'tcp', port));
  server.close();
});

it('finds a UDP socket without a peer, and none with a peer', async () => {
  const [server, client] = [createSocket('udp4'), createSocket('udp4')];
  server.bind(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  expect(found('udp', port)).toEqual(['127.0.0.1']);
  client.connect(port, '127.0.0.1');
  await once(client, 'connect');
  expect(found('udp', client.address().port)).toEqual([]);
  for (const each of [server, client]) each.close();
});
