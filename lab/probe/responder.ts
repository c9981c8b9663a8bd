import type { Socket as DatagramSocket } from 'node:dgram';
import { createServer, type Server, type Socket } from 'node:net';
import type { NetnsRef } from '../plan/names.ts';
import { answerDatagram, endpoint, type Identity, type ReplyBytes, ResponderProtocol } from './responder-protocol.ts';
import { bindUdpIn, listenTcpIn } from './sockets.ts';

const idleMs = 120_000;
const connectionsMax = 4096;
const fillerChunk = Buffer.alloc(64 * 1024, 'seine ');

interface ResponderPort {
  readonly protocol: 'tcp' | 'udp';
  readonly port: number;
}

/**
 * Answers on TCP and UDP ports inside a namespace, with the identity of both ends.
 *
 * Datagrams are received on each address separately: a socket for all addresses would answer from the one that routing prefers, not from
 * the destination address.
 */
export class Responder {
  readonly #identity: Identity;
  readonly #servers: Server[] = [];
  readonly #datagrams: DatagramSocket[] = [];
  readonly #connections = new Set<Socket>();

  private constructor(identity: Identity) {
    this.#identity = identity;
  }

  /** @throws SeineError `REFUSED` if an address or a port is not available; nothing listens then */
  static async start(
    identity: Identity,
    place: NetnsRef,
    addresses: Readonly<Record<ResponderPort['protocol'], readonly string[]>>,
    ports: readonly ResponderPort[],
    signal: AbortSignal,
  ): Promise<Responder> {
    const responder = new Responder(identity);
    try {
      for (const { protocol, port } of ports) {
        for (const address of addresses[protocol]) {
          signal.throwIfAborted();
          if (protocol === 'udp') responder.#receive(await bindUdpIn(place, address, port));
          else await responder.#listen(listenTcpIn(place, address, port));
        }
      }
      return responder;
    } catch (error) {
      responder.close();
      throw error;
    }
  }

  close(): void {
    for (const server of this.#servers) server.close();
    for (const datagrams of this.#datagrams) datagrams.close();
    for (const connection of this.#connections) connection.destroy();
  }

  #receive(datagrams: DatagramSocket): void {
    this.#datagrams.push(datagrams);
    const { address, port } = datagrams.address();
    datagrams.on('message', (request, from) => {
      const exchange = { protocol: 'udp', client: endpoint(from.address, from.port), server: endpoint(address, port) } as const;
      datagrams.send(answerDatagram(this.#identity, exchange, request), from.port, from.address);
    });
    // An ICMP error for an earlier answer: that client has ended; the next one is not affected.
    datagrams.on('error', () => {});
  }

  #listen(fd: number): Promise<void> {
    const server = createServer({ allowHalfOpen: true }, (connection) => this.#converse(connection));
    server.maxConnections = connectionsMax;
    this.#servers.push(server);
    return new Promise((resolve, reject) => {
      server.once('error', reject);
      server.listen({ fd }, resolve);
    });
  }

  #converse(connection: Socket): void {
    this.#connections.add(connection);
    const exchange = {
      protocol: 'tcp',
      client: endpoint(connection.remoteAddress, connection.remotePort),
      server: endpoint(connection.localAddress, connection.localPort),
    } as const;
    const conversation = new ResponderProtocol(this.#identity, exchange);
    connection.setTimeout(idleMs, () => connection.destroy());
    connection.on('data', (chunk) => say(connection, conversation.push(chunk)));
    connection.on('end', () => say(connection, conversation.end()));
    connection.on('error', () => connection.destroy());
    connection.on('close', () => this.#connections.delete(connection));
  }
}

function say(connection: Socket, replies: readonly ReplyBytes[]): void {
  for (const { text, filler, close } of replies) {
    if (!connection.writable) return;
    for (let left = filler; left > 0; left -= fillerChunk.length) connection.write(fillerChunk.subarray(0, left));
    if (close) connection.end(text);
    else connection.write(text);
  }
}
