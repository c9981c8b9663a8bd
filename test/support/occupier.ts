/**
 * A client that tries to occupy a listener: `node occupier.ts KIND PLACE COUNT`.
 *
 * It opens COUNT connections, as fast as the listener accepts them, keeps all of them open, and replaces those that are closed. Prints the
 * number of connections that the listener has accepted once that is COUNT.
 */
import { connect, type Socket } from 'node:net';

const [, , kind = '', place = '', count = '0'] = process.argv;
const request = 'GET /metrics HTTP/1.1\r\nHost: a\r\n';
/** A ClientHello of which the first byte is sent. */
const handshakeByte = Buffer.from([0x16]);
const atOnce = 200;

let opened = 0;
let connecting = 0;
let reported = false;

function begin(socket: Socket): void {
  if (kind === 'part') socket.write(request);
  if (kind === 'kept') socket.write(`${request}\r\n`);
  if (kind === 'handshake') socket.write(handshakeByte);
  if (kind === 'unread') socket.write(`${request}\r\n`.repeat(2));
  if (kind === 'body') socket.write(`POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n`);
}

function more(): void {
  while (connecting < atOnce) open();
}

function open(): void {
  connecting++;
  const socket = place.startsWith('/') ? connect(place) : connect({ host: '127.0.0.1', port: Number(place) });
  const settle = (): void => {
    connecting--;
    setImmediate(more);
  };
  socket.once('connect', () => {
    opened++;
    if (opened >= Number(count) && !reported) {
      reported = true;
      process.stdout.write(`${opened}\n`);
    }
    begin(socket);
    settle();
  });
  socket.on('error', () => undefined);
  let isSettled = false;
  socket.once('connect', () => (isSettled = true));
  socket.once('close', () => {
    if (!isSettled) settle();
  });
  if (kind === 'unread') socket.pause();
  else socket.resume();
}

more();
