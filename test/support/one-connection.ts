/**
 * One TCP connection from a chosen port, to a server that sends first: `one-connection.ts ADDRESS PORT SOURCE-ADDRESS SOURCE-PORT
 * LIMIT-MS`. Prints `ok MS` and resets it, or prints the error. With `keep` as the last word it stays until it reads a line, sends a
 * message, and reports whether that came back (`kept`) or not (`lost`).
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { argv, exit, stdin } from 'node:process';

const [host = '', port = '', localAddress = '', localPort = '', limitMs = '', keep = ''] = argv.slice(2);
const print = (text: string): void => void process.stdout.write(`${text}\n`);
const begin = performance.now();
const socket = connect({ host, port: Number(port), localAddress, localPort: Number(localPort) });
const timer = setTimeout(() => {
  print(socket.connecting ? 'no connection' : 'no answer');
  socket.resetAndDestroy();
  exit();
}, Number(limitMs));
socket.on('error', (error) => {
  print(error.message);
  exit();
});
await once(socket, 'data');
clearTimeout(timer);
print(`ok ${(performance.now() - begin).toFixed(1)}`);
if (keep === 'keep') {
  socket.removeAllListeners('error').on('error', () => undefined);
  const end = once(socket, 'close').then(() => 'lost');
  await Promise.race([end, once(stdin, 'data')]);
  socket.write('x');
  const late = new Promise<string>((resolve) => void setTimeout(resolve, Number(limitMs), 'lost'));
  print(await Promise.race([end, late, once(socket, 'data').then(() => 'kept')]));
}
socket.resetAndDestroy();
exit();
