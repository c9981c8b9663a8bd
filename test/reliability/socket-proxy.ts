import { renameSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';

/**
 * - `pass`: everything is forwarded
 * - `stall`: connections are accepted, and no data is sent on them: a peer that hangs
 * - `dribble`: the server's data is sent byte by byte
 * - `garbage`: the server's data is followed by meaningless bytes
 */
export type SocketFault = 'pass' | 'stall' | 'dribble' | 'garbage';

const bytesPerMs = 8;

/** A proxy between a unix socket and its clients: takes the socket's name, and reaches the server by another one. */
export class SocketProxy {
  readonly #path: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #fault: SocketFault = 'pass';

  private constructor(path: string) {
    this.#path = path;
    this.#server = createServer((client) => this.#serve(client));
  }

  static async before(path: string): Promise<SocketProxy> {
    const proxy = new SocketProxy(path);
    renameSync(path, `${path}.real`);
    await new Promise<void>((resolve, reject) => {
      proxy.#server.once('error', reject);
      proxy.#server.listen(path, resolve);
    });
    return proxy;
  }

  /** Sets the fault for new connections; open ones are closed. */
  turn(fault: SocketFault): void {
    this.#fault = fault;
    for (const socket of this.#sockets) socket.destroy();
  }

  get connections(): number {
    return this.#sockets.size / 2;
  }

  /** Restores the name. */
  async remove(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
    rmSync(this.#path, { force: true });
    renameSync(`${this.#path}.real`, this.#path);
  }

  #serve(client: Socket): void {
    const server = connect(`${this.#path}.real`);
    const fault = this.#fault;
    for (const [socket, other] of [
      [client, server],
      [server, client],
    ] as const) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => {
        this.#sockets.delete(socket);
        other.destroy();
      });
    }
    if (fault === 'stall') return;
    client.pipe(server);
    if (fault === 'pass') server.pipe(client);
    else if (fault === 'dribble') dribble(server, client);
    else server.on('data', (chunk: Buffer) => client.write(Buffer.concat([chunk, Buffer.from('\u0000}]garbage{\u00ff')])));
  }
}

function dribble(from: Socket, to: Socket): void {
  const waiting: Buffer[] = [];
  from.on('data', (chunk: Buffer) => waiting.push(chunk));
  const timer = setInterval(() => {
    for (let each = 0; each < bytesPerMs && waiting[0] !== undefined; each++) {
      to.write(waiting[0].subarray(0, 1));
      if (waiting[0].length === 1) waiting.shift();
      else waiting[0] = waiting[0].subarray(1);
    }
  }, 1);
  from.once('close', () => clearInterval(timer));
}
