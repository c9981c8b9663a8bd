#!/usr/bin/env node
/** Runs inside a pod: echoes everything over UDP and TCP, on these addresses and ports (arguments: `ADDRESS PORT …`). Prints `ready`. */
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, isIPv6 } from 'node:net';

async function serve(address: string, port: number): Promise<void> {
  const datagrams = createSocket(isIPv6(address) ? 'udp6' : 'udp4');
  datagrams.on('message', (message, from) => datagrams.send(message, from.port, from.address));
  datagrams.bind(port, address);
  await once(datagrams, 'listening');
  datagrams.on('error', () => {}); // an ICMP error for an earlier answer
  const server = createServer((connection) => {
    connection.setNoDelay();
    connection.on('error', () => {});
    connection.pipe(connection);
  });
  server.listen(port, address);
  await once(server, 'listening');
}

const words = process.argv.slice(2);
for (let at = 0; at + 1 < words.length; at += 2) await serve(words[at] ?? '', Number(words[at + 1]));
process.stdout.write('ready\n');
