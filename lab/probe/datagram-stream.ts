import type { Socket } from 'node:dgram';
import { once } from 'node:events';
import { parseIp } from '../../src/base/net/ip.ts';
import type { NetnsRef } from '../plan/names.ts';
import { bindUdpIn } from './sockets.ts';

const usualMs = 20;
/** Consecutive datagrams without an answer that count as blocked, and with one that count as connected. */
const inARow = 15;

interface DatagramsWanted {
  readonly from: NetnsRef;
  readonly address: string;
  readonly port: number;
  /** Interval between two datagrams (ms). */
  readonly everyMs?: number;
}

/** One UDP flow to a responder, between two fixed ports, until closed: datagrams at a steady rate, and whether answers come. */
export class DatagramStream {
  readonly #socket: Socket;
  readonly #timer: NodeJS.Timeout;
  #sent = 0;
  #sinceAnswer = 0;
  #answeredInARow = 0;
  #answered = 0;

  private constructor(socket: Socket, everyMs: number) {
    this.#socket = socket;
    socket.on('message', () => {
      this.#sinceAnswer = 0;
      this.#answeredInARow++;
      this.#answered++;
    });
    socket.on('error', () => {}); // refused: no answer
    this.#timer = setInterval(() => this.#send(), everyMs);
  }

  static async start({ from, address, port, everyMs = usualMs }: DatagramsWanted): Promise<DatagramStream> {
    const socket = await bindUdpIn(from, parseIp(address).family === 'ipv4' ? '0.0.0.0' : '::', 0);
    try {
      socket.connect(port, address);
      await once(socket, 'connect');
      return new DatagramStream(socket, everyMs);
    } catch (error) {
      socket.close();
      throw error;
    }
  }

  get sent(): number {
    return this.#sent;
  }

  get answered(): number {
    return this.#answered;
  }

  get isAnswered(): boolean {
    return this.#answeredInARow >= inARow && this.#sinceAnswer < inARow;
  }

  get isSilent(): boolean {
    return this.#sinceAnswer >= inARow;
  }

  /** Sends nothing more; answers are still counted. */
  stop(): void {
    clearInterval(this.#timer);
  }

  close(): void {
    this.stop();
    this.#socket.close();
  }

  #send(): void {
    this.#sent++;
    if (++this.#sinceAnswer >= inARow) this.#answeredInARow = 0;
    this.#socket.send('who\n');
  }
}
