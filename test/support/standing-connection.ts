import type { Socket } from 'node:net';
import type { NetnsRef } from '../../lab/plan/names.ts';
import { connectTcpIn } from '../../lab/probe/sockets.ts';

const everyMs = 100;
const withinMs = 10_000;

interface ConnectionWanted {
  readonly from: NetnsRef;
  readonly address: string;
  readonly port: number;
}

/** One TCP connection to a responder, which answers a line ten times a second until the connection is closed. */
export class StandingConnection {
  readonly #socket: Socket;
  readonly #timer: NodeJS.Timeout;
  #asked = 0;
  #answered = 0;
  #end: string | undefined;

  private constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (answer: Buffer) => {
      this.#answered += answer.toString('latin1').split('\n').length - 1;
    });
    socket.once('error', (error) => this.#ended(error.message));
    socket.once('end', () => this.#ended('closed by the responder'));
    this.#timer = setInterval(() => {
      this.#asked++;
      socket.write('who\n');
    }, everyMs);
  }

  static async open({ from, address, port }: ConnectionWanted): Promise<StandingConnection> {
    return new StandingConnection(await connectTcpIn(from, address, port, AbortSignal.timeout(withinMs)));
  }

  /** Closes the connection once all lines are answered. @returns why it ended before; undefined if it did not */
  async close(): Promise<string | undefined> {
    clearInterval(this.#timer);
    const untilMs = performance.now() + withinMs;
    while (this.#end === undefined && this.#answered < this.#asked && performance.now() < untilMs)
      await new Promise((resolve) => setTimeout(resolve, everyMs));
    this.#socket.destroy();
    return this.#end ?? (this.#answered < this.#asked ? `${this.#answered} of ${this.#asked} lines answered` : undefined);
  }

  #ended(why: string): void {
    clearInterval(this.#timer);
    this.#end ??= why;
  }
}
