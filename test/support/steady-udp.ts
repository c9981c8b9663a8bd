import type { Socket } from 'node:dgram';
import type { NetnsRef } from '../../lab/plan/names.ts';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { parseIp } from '../../src/base/net/ip.ts';

const tickMs = 20;

/** A client that keeps sending from one port, like one with a single socket: conntrack entries of it never expire. */
export class SteadyUdp {
  readonly #socket: Socket;
  readonly #timer: NodeJS.Timeout;
  #last = '';
  #answers = 0;
  #sinceMs = performance.now();

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('message', (message) => this.#received((JSON.parse(message.toString()) as { pod: string }).pod.replace('demo/', '')));
    socket.on('error', () => this.#received('REFUSED'));
    this.#timer = setInterval(() => socket.send('who\n', (error) => error && this.#received('REFUSED')), tickMs);
  }

  static async start(from: NetnsRef, address: string, port: number): Promise<SteadyUdp> {
    const socket = await bindUdpIn(from, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    await new Promise<void>((resolve) => socket.connect(port, address, resolve));
    return new SteadyUdp(socket);
  }

  /** The pod that answered last, or `REFUSED`. Empty before the first answer. */
  get last(): string {
    return this.#last;
  }

  /** Time of its first answer, by `performance.now()`. */
  get sinceMs(): number {
    return this.#sinceMs;
  }

  /** Number of answers; refusals do not count. */
  get answers(): number {
    return this.#answers;
  }

  stop(): void {
    clearInterval(this.#timer);
    this.#socket.close();
  }

  #received(who: string): void {
    if (who !== this.#last) this.#sinceMs = performance.now();
    this.#last = who;
    if (who !== 'REFUSED') this.#answers++;
  }
}
