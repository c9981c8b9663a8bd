/**
 * Counts requests by local address: `share-server.ts PORT [ADDRESS…]`. TCP on every address of the namespace, UDP on those named. Sends
 * `ready` to its parent, then answers every message of it with the counts so far, and resets them.
 */
import { createSocket } from 'node:dgram';
import { createServer } from 'node:net';
import { argv } from 'node:process';

const [port = '', ...addresses] = argv.slice(2);
let counts: Record<string, number> = {};
const count = (address: string): void => void (counts[address] = (counts[address] ?? 0) + 1);

const tcp = createServer((socket) => {
  socket.on('error', () => undefined);
  count((socket.localAddress ?? '').replace('::ffff:', ''));
  socket.write('x');
  socket.on('data', (data) => socket.write(data));
});
await new Promise<void>((resolve) => void tcp.listen(Number(port), '::', 16_384, resolve));
for (const address of addresses) {
  const udp = createSocket({ type: address.includes(':') ? 'udp6' : 'udp4', recvBufferSize: 1 << 20 });
  udp.on('message', () => count(address));
  await new Promise<void>((resolve) => void udp.bind(Number(port), address, resolve));
}
process.on('message', () => {
  process.send?.(counts);
  counts = {};
});
process.send?.('ready');
