import { randomBytes } from 'node:crypto';
import { unlinkSync } from 'node:fs';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { OpenFlowConnection, type OpenFlowConnectionOptions } from '../../src/openflow/connection/connection.ts';
import { OpenFlowFramer } from '../../src/openflow/connection/framer.ts';
import { readHeader } from '../../src/openflow/protocol.ts';

/** A switch that sends what the test scripts, and records what it receives. */
export class ScriptedSwitch {
  readonly path = join(tmpdir(), `seine-${randomBytes(4).toString('hex')}.sock`);
  readonly received: Uint8Array[] = [];
  readonly #server: Server;
  readonly #closed = new AbortController();
  #waiting: (() => void)[] = [];
  socket: Socket | undefined;
  hello = '0600000800000001';
  answer: (message: Uint8Array, socket: Socket) => void = () => {};

  private constructor() {
    this.#server = createServer((socket) => {
      this.socket = socket;
      const framer = new OpenFlowFramer();
      socket.write(Buffer.from(this.hello, 'hex'));
      socket.on('error', () => {});
      socket.on('data', (chunk) => {
        for (const message of framer.push(chunk)) {
          this.received.push(message);
          this.answer(message, socket);
        }
        for (const wake of this.#waiting.splice(0)) wake();
      });
    });
  }

  static async listen(): Promise<ScriptedSwitch> {
    const peer = new ScriptedSwitch();
    await new Promise<void>((resolve) => peer.#server.listen(peer.path, resolve));
    return peer;
  }

  /** Aborts when this is closed. */
  get signal(): AbortSignal {
    return this.#closed.signal;
  }

  /** A connection to this switch that is maintained until it is closed. */
  connect(options: Partial<OpenFlowConnectionOptions> = {}): OpenFlowConnection {
    const connection = new OpenFlowConnection({ endpoint: `unix:${this.path}`, ...options });
    void connection.run(this.signal);
    return connection;
  }

  async hears(type: number): Promise<Uint8Array> {
    for (;;) {
      const found = this.received.find((message) => readHeader(message).type === type);
      if (found !== undefined) return found;
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
  }

  close(): void {
    this.#closed.abort();
    this.socket?.destroy();
    this.#server.close();
    try {
      unlinkSync(this.path);
    } catch {
      // Closing the server has removed it.
    }
  }
}

/** A message of OpenFlow 1.5, or of the version given, with a body in hexadecimal. */
export function reply(type: number, xid: number, body = '', version = 6): Buffer {
  const head = Buffer.alloc(8);
  head.writeUInt8(version, 0);
  head.writeUInt8(type, 1);
  head.writeUInt16BE(8 + body.length / 2, 2);
  head.writeUInt32BE(xid, 4);
  return Buffer.concat([head, Buffer.from(body, 'hex')]);
}
