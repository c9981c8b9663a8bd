import { createServer, type Socket } from 'node:net';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import { parseIp } from '../../src/base/net/ip.ts';

/** Where nothing is to arrive: no other traffic goes to this port. */
export const deniedPort = 7779;
const connectWithinMs = 1_000;
/** Each attempt to connect holds a socket for `connectWithinMs`, so there is one to so many datagrams. */
const datagramsAConnect = 10;
const settleMs = 500;

/** The network of a pod, or of the world. */
export interface Place {
  readonly netns: string;
  readonly ips: readonly string[];
}

/** From where to where policies let nothing pass. */
export interface DeniedWay {
  readonly name: string;
  readonly from: Pick<Place, 'netns'>;
  readonly addresses: readonly string[];
}

export interface DeniedCount {
  readonly sent: number;
  /** How much came of each way, by `udp` or `tcp` and its name; what came of none is left out. */
  readonly arrived: Readonly<Record<string, number>>;
}

/** Datagrams and attempts to connect on ways that are denied, and what of it passes: datagrams that arrive, answered or not, and connections. */
export class DeniedTraffic {
  readonly #closing: (() => void)[] = [];
  readonly #stopped = new AbortController();
  readonly #arrived = new Map<string, number>();
  readonly #everyMs: number;
  #sent = 0;

  private constructor(hertz: number) {
    this.#everyMs = 1_000 / hertz;
  }

  /** @param hertz datagrams a second on each way, in each family; a tenth as many connections */
  static async start(servers: readonly Place[], ways: readonly DeniedWay[], hertz: number): Promise<DeniedTraffic> {
    const traffic = new DeniedTraffic(hertz);
    try {
      for (const { netns, ips } of servers) for (const address of ips) await traffic.#serve(netns, address);
      for (const { name, from, addresses } of ways)
        for (const address of addresses) {
          const label = `${name} ${parseIp(address).family}`;
          await traffic.#datagrams(label, from.netns, address);
          traffic.#connections(label, from.netns, address);
        }
    } catch (thrown) {
      await traffic.stop();
      throw thrown;
    }
    return traffic;
  }

  /** Ways of which something has arrived. */
  get arrived(): readonly string[] {
    return [...this.#arrived.keys()].toSorted();
  }

  async stop(): Promise<DeniedCount> {
    this.#stopped.abort();
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    for (const close of this.#closing) close();
    return { sent: this.#sent, arrived: Object.fromEntries(this.#arrived) };
  }

  #count(way: string): void {
    this.#arrived.set(way, (this.#arrived.get(way) ?? 0) + 1);
  }

  async #serve(netns: string, address: string): Promise<void> {
    const datagrams = await bindUdpIn(netns, address, deniedPort);
    datagrams.on('message', (message) => this.#count(`udp ${message.toString()}`));
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket
        .on('error', () => {})
        .once('close', () => sockets.delete(socket))
        .resume();
    });
    server.listen({ fd: listenTcpIn(netns, address, deniedPort) });
    this.#closing.push(() => {
      datagrams.close();
      server.close();
      for (const socket of sockets) socket.destroy();
    });
  }

  async #datagrams(way: string, netns: string, address: string): Promise<void> {
    const socket = await bindUdpIn(netns, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    socket.on('error', () => {}); // an ICMP error is no arrival
    await new Promise<void>((resolve) => socket.connect(deniedPort, address, resolve));
    const message = Buffer.from(way);
    this.#every(this.#everyMs, () => socket.send(message, () => {}));
    this.#closing.push(() => socket.close());
  }

  #connections(way: string, netns: string, address: string): void {
    const connect = async (): Promise<void> => {
      const signal = AbortSignal.any([AbortSignal.timeout(connectWithinMs), this.#stopped.signal]);
      const socket = await connectTcpIn(netns, address, deniedPort, signal).catch(() => undefined);
      if (socket === undefined) return;
      this.#count(`tcp ${way}`);
      socket.on('error', () => {}).end();
    };
    this.#every(this.#everyMs * datagramsAConnect, () => void connect());
  }

  #every(everyMs: number, work: () => void): void {
    const timer = setInterval(() => {
      this.#sent += 1;
      work();
    }, everyMs);
    this.#stopped.signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }
}
