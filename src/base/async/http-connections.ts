import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import type { TLSSocket } from 'node:tls';
import type { ConnectionLimit } from './connection-limit.ts';

/**
 * Applies a limit to the connections of an HTTP server, from their first byte: TLS handshakes, requests in parts, replies that are not
 * read, and connections kept open between requests.
 *
 * @param admits returns whether a client is served at all. Default: every client is
 */
export function limitConnections(
  server: Server | TlsServer,
  limit: ConnectionLimit,
  admits: (socket: Socket) => boolean = () => true,
): void {
  /** Connections in their TLS handshake, by the addresses of both ends: the socket inside TLS is another object. */
  const handshakes = new Map<string, Socket>();
  const outside = new WeakMap<Socket, Socket>();
  const isTls = 'setSecureContext' in server;
  server.on('connection', (socket: Socket) => {
    if (!admits(socket)) {
      socket.destroy();
      return;
    }
    if (!limit.admit(socket) || !isTls) return;
    const ends = endsOf(socket);
    handshakes.set(ends, socket);
    socket.once('close', () => {
      if (handshakes.get(ends) === socket) handshakes.delete(ends);
    });
  });
  server.on('secureConnection', (inside: TLSSocket) => {
    const socket = handshakes.get(endsOf(inside));
    if (socket) outside.set(inside, socket);
  });
  server.prependListener('request', ({ socket }: IncomingMessage, response: ServerResponse) => {
    const taken = limit.requested(outside.get(socket) ?? socket, () =>
      response.writableEnded || response.writableNeedDrain ? 'client' : 'agent',
    );
    response.once('close', taken);
  });
}

function endsOf({ remoteAddress, remotePort, localAddress, localPort }: Socket): string {
  return `${remoteAddress} ${remotePort} ${localAddress} ${localPort}`;
}
