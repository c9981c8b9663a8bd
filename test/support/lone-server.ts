import type { Socket } from 'node:dgram';
import { once } from 'node:events';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { type Family, parseIp } from '../../src/base/net/ip.ts';

const everyMs = 20;
/** Consecutive datagrams that are lost for silence, or arrive for a stream. */
const inARow = 15;
const port = 5005;

/**
 * A client that sent one request, and a server that continues to send to it: there is no packet in the other direction until the client
 * sends again.
 */
export class LoneServer {
  readonly #server: Socket;
  readonly #client: Socket;
  #timer: NodeJS.Timeout | undefined;
  #receivedInARow = 0;
  #sinceReceived = 0;

  private constructor(server: Socket, client: Socket) {
    this.#server = server;
    this.#client = client;
    for (const socket of [server, client]) socket.on('error', () => {}); // an ICMP error: not received
    server.once('message', (_, { port: to, address }) => {
      this.#timer = setInterval(() => this.#send(to, address), everyMs);
    });
    client.on('message', () => {
      this.#sinceReceived = 0;
      this.#receivedInARow++;
    });
  }

  static async start(server: PodStatusLine, client: PodStatusLine, family: Family): Promise<LoneServer> {
    const address = server.ips.find((ip) => parseIp(ip).family === family) ?? '';
    const listening = await bindUdpIn(server.netns, address, port);
    const socket = await bindUdpIn(client.netns, family === 'ipv4' ? '0.0.0.0' : '::', 0);
    await new Promise<void>((resolve) => socket.connect(port, address, resolve));
    const pair = new LoneServer(listening, socket);
    // The first datagram between two nodes may be lost, and a deleted policy may still apply.
    const asking = setInterval(() => pair.ask(), everyMs);
    await once(listening, 'message').finally(() => clearInterval(asking));
    return pair;
  }

  /** Sends one packet of the client. */
  ask(): void {
    this.#client.send('go on', () => {}); // a rejected one is not received
  }

  get isReceived(): boolean {
    return this.#receivedInARow >= inARow && this.#sinceReceived < inARow;
  }

  get isSilent(): boolean {
    return this.#timer !== undefined && this.#sinceReceived >= inARow;
  }

  close(): void {
    clearInterval(this.#timer);
    this.#server.close();
    this.#client.close();
  }

  #send(to: number, address: string): void {
    this.#server.send('still here', to, address, () => {});
    if (++this.#sinceReceived >= inARow) this.#receivedInARow = 0;
  }
}
