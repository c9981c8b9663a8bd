import type { Socket } from 'node:dgram';
import { bindUdpIn } from '../../lab/probe/sockets.ts';
import { parseIp } from '../../src/base/net/ip.ts';
import { slowness } from './test-datapath.ts';

const usualMs = 1;
/** Maximum after a pause of this process: more at once would overflow the sockets by which the userspace data path gets packets. */
const burstMax = 3;
const settleMs = 500 * slowness;

export interface StreamCount {
  readonly sent: number;
  readonly lost: number;
  /** The longest run of lost packets, which is about as many milliseconds at 1 kHz. */
  readonly longestGap: number;
  /** Numbers of the first packets that were lost. */
  readonly firstLost: readonly number[];
  /** Number of packets sent before each of these. */
  readonly lostNumbers: readonly number[];
}

/** Echoes everything that arrives at an address of a namespace, until closed. */
export async function echo(netns: string, address: string, port: number): Promise<() => void> {
  const socket = await bindUdpIn(netns, address, port);
  socket.on('message', (message, from) => socket.send(message, from.port, from.address));
  socket.on('error', () => {}); // an ICMP error for an earlier answer
  return () => socket.close();
}

/** Numbered datagrams from a namespace to an echo, until stopped, at 1 kHz if not said otherwise. Those that do not come back are lost. */
export class UdpStream {
  readonly #socket: Socket;
  readonly #answered = new Set<number>();
  readonly #timer: NodeJS.Timeout;
  readonly #everyMs: number;
  #sent = 0;
  #sentUntilMs = performance.now();

  private constructor(socket: Socket, everyMs: number) {
    this.#socket = socket;
    this.#everyMs = everyMs;
    socket.on('message', (message) => this.#answered.add(message.readUInt32BE(0)));
    socket.on('error', () => {}); // a rejection counts as a loss
    this.#timer = setInterval(() => this.#sendDue(), everyMs);
  }

  /** @param everyMs interval between two datagrams; an emulated host, which would lose some for want of time, gets a multiple of it */
  static async start(netns: string, address: string, port: number, everyMs = usualMs): Promise<UdpStream> {
    const socket = await bindUdpIn(netns, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    socket.setRecvBufferSize(1 << 20);
    await new Promise<void>((resolve) => socket.connect(port, address, resolve));
    return new UdpStream(socket, everyMs * slowness);
  }

  get answered(): number {
    return this.#answered.size;
  }

  get sent(): number {
    return this.#sent;
  }

  async stop(): Promise<StreamCount> {
    clearInterval(this.#timer);
    await new Promise((resolve) => setTimeout(resolve, settleMs));
    this.#socket.close();
    const lost: number[] = [];
    let gap = 0;
    let longestGap = 0;
    for (let number = 0; number < this.#sent; number++) {
      gap = this.#answered.has(number) ? 0 : gap + 1;
      if (gap > 0) lost.push(number);
      longestGap = Math.max(longestGap, gap);
    }
    return { sent: this.#sent, lost: lost.length, longestGap, firstLost: lost.slice(0, 5), lostNumbers: lost };
  }

  /** One per interval. Datagrams that a pause of this process prevented are not made up for. */
  #sendDue(): void {
    const nowMs = performance.now();
    const due = Math.min(burstMax, Math.floor((nowMs - this.#sentUntilMs) / this.#everyMs));
    this.#sentUntilMs = due === burstMax ? nowMs : this.#sentUntilMs + due * this.#everyMs;
    for (let each = 0; each < due; each++) {
      const message = Buffer.alloc(32);
      message.writeUInt32BE(this.#sent++);
      this.#socket.send(message, () => {}); // an error counts as a loss
    }
  }
}
