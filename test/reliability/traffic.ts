import { createServer, type Socket } from 'node:net';
import type { PodStatusLine } from '../../lab/daemon/status.ts';
import { bindUdpIn, connectTcpIn, listenTcpIn } from '../../lab/probe/sockets.ts';
import { pause } from '../../src/base/async/pause.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { until } from '../support/converge-lab.ts';
import { type StreamCount, TrafficStream } from './stream.ts';

/** Ports of the servers, TCP and UDP, for direct clients. */
const directPort = 7777;
/**
 * Port for clients of a Service. From one source port a client cannot use an endpoint both directly and through its Service: the answers
 * would have the same addresses and ports, and the tracker of the userspace data path drops the second.
 */
export const servicePort = 7778;
/** Timeout of a connection (ms). */
const connectWithinMs = 5_000;
const reconnectEveryMs = 200;
const settleMs = 500;
const thereWithinMs = 30_000;

/** UDP: datagrams of one socket. connect: new TCP connections. talk: messages on one TCP connection. */
export type StreamKind = 'udp' | 'connect' | 'talk';

export interface Route {
  readonly name: string;
  readonly from: Pick<PodStatusLine, 'netns'>;
  readonly addresses: readonly string[];
  /** True if they belong to a Service. */
  readonly service: boolean;
  /** Port of the Service if it differs from that of its endpoints, such as a node port. */
  readonly port?: number;
}

/** Rates per second. */
export interface Rates {
  /** Datagrams, and messages on an established connection. */
  readonly messages: number;
  /** New connections, each of which is several packets and a socket. */
  readonly connects: number;
}

/** Source and destination of one stream. */
interface Way {
  readonly netns: string;
  readonly address: string;
  readonly port: number;
}

/** This number of datagrams, new connections and messages a second (100 by default) along each path, in each family. */
export class Traffic {
  readonly #streams: { readonly kind: StreamKind; readonly stream: TrafficStream }[] = [];
  readonly #closing: (() => void)[] = [];
  readonly #stopped = new AbortController();
  readonly #connecting = new Set<Promise<void>>();
  readonly #rates: Rates;
  /** Connections that had to be recreated because they ended. */
  #broken = 0;

  private constructor(rates: Rates) {
    this.#rates = rates;
  }

  static async start(
    servers: readonly Pick<PodStatusLine, 'netns' | 'ips'>[],
    routes: readonly Route[],
    rate: number | Rates,
  ): Promise<Traffic> {
    const traffic = new Traffic(typeof rate === 'number' ? { messages: rate, connects: rate } : rate);
    try {
      for (const { netns, ips } of servers)
        for (const address of ips) for (const port of [directPort, servicePort]) await traffic.#serve({ netns, address, port });
      for (const { name, from, addresses, service, port = service ? servicePort : directPort } of routes)
        for (const address of addresses) {
          const way = { netns: from.netns, address, port };
          await untilThere(way);
          await traffic.#along(name, way);
        }
    } catch (thrown) {
      await traffic.stop();
      throw thrown;
    }
    return traffic;
  }

  get names(): readonly string[] {
    return this.#streams.map(({ stream }) => stream.name);
  }

  /** Streams without an answer to any packet sent at `afterMs` or later. */
  silentSince(afterMs: number): readonly string[] {
    return this.#streams.filter(({ stream }) => stream.answeredSince(afterMs) === undefined).map(({ stream }) => stream.name);
  }

  /** Time from a moment until the first stream had its first answer, and the last one (ms); undefined if one had none. */
  backAfter(momentMs: number): { readonly firstMs: number; readonly allMs: number } | undefined {
    const answered = this.#streams.map(({ stream }) => stream.answeredSince(momentMs));
    const known = answered.filter((atMs) => atMs !== undefined);
    if (known.length < answered.length) return undefined;
    return { firstMs: Math.round(Math.min(...known) - momentMs), allMs: Math.round(Math.max(...known) - momentMs) };
  }

  /** Number of packets sent from one moment up to another (ms), on all streams of a kind, that were not answered by a third. */
  between(kind: StreamKind, fromMs: number, toMs: number, byMs: number): Pick<StreamCount, 'sent' | 'lost'> {
    const counts = this.#streams.filter((each) => each.kind === kind).map(({ stream }) => stream.between(fromMs, toMs, byMs));
    const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0);
    return { sent: sum(counts.map(({ sent }) => sent)), lost: sum(counts.map(({ lost }) => lost)) };
  }

  async stop(): Promise<TrafficCount> {
    this.#stopped.abort();
    await Promise.all([...this.#connecting, new Promise((resolve) => setTimeout(resolve, settleMs))]);
    for (const close of this.#closing) close();
    const streams = this.#streams.map(({ kind, stream }) => ({ kind, name: stream.name, ...stream.count() }));
    return { streams, broken: this.#broken };
  }

  async #along(route: string, way: Way): Promise<void> {
    const label = `${route} ${parseIp(way.address).family}`;
    await this.#datagrams(this.#stream('udp', label), way);
    this.#connections(this.#stream('connect', label), way);
    await this.#talk(this.#stream('talk', label), way);
  }

  #stream(kind: StreamKind, name: string): TrafficStream {
    const stream = new TrafficStream(`${kind} ${name}`);
    this.#streams.push({ kind, stream });
    return stream;
  }

  #every(kind: keyof Rates, work: () => void): void {
    const timer = setInterval(work, 1_000 / this.#rates[kind]);
    this.#stopped.signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  }

  /** Echoes everything, over UDP and TCP. */
  async #serve({ netns, address, port }: Way): Promise<void> {
    const datagrams = await bindUdpIn(netns, address, port);
    datagrams.on('message', (message, from) => datagrams.send(message, from.port, from.address));
    datagrams.on('error', () => {}); // an ICMP error for an earlier answer
    const connections = new Set<Socket>();
    const server = createServer((connection) => {
      connections.add(connection.setNoDelay());
      connection.on('error', () => {});
      connection.once('close', () => connections.delete(connection));
      connection.pipe(connection);
    });
    server.listen({ fd: listenTcpIn(netns, address, port) });
    this.#closing.push(() => {
      datagrams.close();
      server.close();
      for (const connection of connections) connection.destroy();
    });
  }

  async #datagrams(stream: TrafficStream, { netns, address, port }: Way): Promise<void> {
    const socket = await bindUdpIn(netns, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    const waiting = new Map<number, () => void>();
    socket.on('message', (message) => waiting.get(message.readUInt32BE(0))?.());
    socket.on('error', () => {}); // a rejection counts as a loss
    await new Promise<void>((resolve) => socket.connect(port, address, resolve));
    let number = 0;
    this.#every('messages', () => {
      const message = Buffer.alloc(32);
      message.writeUInt32BE(++number);
      waiting.set(number, stream.send());
      socket.send(message, () => {}); // an error counts as a loss
    });
    this.#closing.push(() => socket.close());
  }

  #connections(stream: TrafficStream, { netns, address, port }: Way): void {
    this.#every('connects', () => {
      const answered = stream.send();
      const signal = AbortSignal.timeout(connectWithinMs);
      const connecting = connectTcpIn(netns, address, port, signal)
        .then(
          (socket) => {
            answered();
            socket.on('error', () => {});
            socket.resetAndDestroy(); // leaves no connection in TIME_WAIT
          },
          () => undefined, // a loss
        )
        .finally(() => this.#connecting.delete(connecting));
      this.#connecting.add(connecting);
    });
  }

  /** Messages on one connection, which TCP retransmits: the duration of an answer counts. */
  async #talk(stream: TrafficStream, { netns, address, port }: Way): Promise<void> {
    let socket: Socket | undefined;
    const waiting: (() => void)[] = [];
    const { signal } = this.#stopped;
    const connect = async (): Promise<void> => {
      const made = await connectTcpIn(netns, address, port, AbortSignal.any([signal, AbortSignal.timeout(connectWithinMs)]));
      if (signal.aborted) return void made.destroy();
      made.setNoDelay();
      let bytes = 0;
      made.on('data', (chunk: Buffer) => {
        for (bytes += chunk.length; bytes >= 8; bytes -= 8) waiting.shift()?.();
      });
      made.on('error', () => {});
      made.once('close', () => {
        socket = undefined;
        waiting.length = 0;
        if (signal.aborted) return;
        this.#broken++; // messages that are not sent meanwhile do not count as lost
        void untilMade(connect, signal);
      });
      socket = made;
    };
    await connect();
    this.#every('messages', () => {
      if (socket === undefined) return;
      waiting.push(stream.send());
      socket.write(Buffer.alloc(8));
    });
    this.#closing.push(() => socket?.destroy());
  }
}

/** Retries: a host that refuses a connection now may accept it in a moment, like a node whose OVS restarts. */
async function untilMade(connect: () => Promise<void>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    try {
      return await connect();
    } catch {
      await pause(reconnectEveryMs, signal);
    }
  }
}

/** A Service may still be without endpoints. */
async function untilThere({ netns, address, port }: Way): Promise<void> {
  const connects = async (): Promise<boolean> => {
    const socket = await connectTcpIn(netns, address, port, AbortSignal.timeout(connectWithinMs)).catch(() => undefined);
    socket?.resetAndDestroy();
    return socket !== undefined;
  };
  await until(connects, thereWithinMs, () => `no answer from ${address} port ${port}`);
}

export interface TrafficCount {
  readonly streams: readonly (StreamCount & { readonly kind: StreamKind; readonly name: string })[];
  /** TCP connections that ended. */
  readonly broken: number;
}
