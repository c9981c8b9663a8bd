/**
 * Opens connections from ports that the kernel chooses, as every client does: `share-client.ts tcp|udp ADDRESS PORT COUNT ATONCE`. TCP
 * connections are reset once the server has sent something. Exits with 1 if one was not answered.
 */

import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect } from 'node:net';
import { argv, exit } from 'node:process';

const [protocol, host = '', port = '', count = '', atOnce = ''] = argv.slice(2);
let left = Number(count);

async function tcp(): Promise<void> {
  while (left-- > 0) {
    const socket = connect({ host, port: Number(port) });
    await once(socket, 'data');
    socket.resetAndDestroy();
    await once(socket, 'close');
  }
}

async function udp(): Promise<void> {
  while (left-- > 0) {
    const socket = createSocket(host.includes(':') ? 'udp6' : 'udp4');
    await new Promise<void>((resolve, reject) =>
      socket.send('x', Number(port), host, (error) => {
        socket.close();
        if (error) reject(error);
        else resolve();
      }),
    );
  }
}

try {
  await Promise.all(Array.from({ length: Number(atOnce) }, protocol === 'tcp' ? tcp : udp));
} catch (error) {
  console.error(error);
  exit(1);
}
