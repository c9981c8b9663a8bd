import { createServer, type Socket } from 'node:net';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import { parseIp } from '../../src/base/net/ip.ts';

/** Port on which nothing must arrive: no other traffic uses it. */
export const deniedPort = 7779;
const connectWithinMs = 1_000;
/** Datagrams per connection attempt; each attempt keeps a socket for `connectWithinMs`. */
const datagramsAConnect = 10;
const settleMs = 500;

/** The network of a pod, or the outside network. */
export interface Place {
  readonly netns: string;
  readonly ips: readonly string[];
}

/** Source and destination between which policies deny everything. */
export interface DeniedWay {
  readonly name: string;
  readonly from: Pick<Place, 'netns'>;
  readonly addresses: readonly string[];
}

export interface DeniedCount {
  readonly sent: number;
  /** Number of arrivals on each path, by `udp` or `tcp` and its name; paths without any are omitted. */
  readonly arrived: Readonly<Record<string, number>>;
}

/** Datagrams and connection attempts on denied paths, and those that pass: datagrams that arrive, answered or not, and connections. */
export class DeniedTraffic {
  readonly #closing: (() => void)[] = [];
  readonly #stopped = new AbortController();
  readonly #arrived = new Map<string, number>();
  readonly #everyMs: number;
  #sent = 0;

  private constructor(hertz: number) {
    this.#everyMs = 1_000 / hertz;
  }

  /** @param hertz datagrams a second on each path, in each family; a tenth of that for connections */
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

  /** Paths with arrivals. */
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
    socket.on('error', () => {}); // an ICMP error is not an arrival
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
