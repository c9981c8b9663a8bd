import { once } from 'node:events';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { connectTcpIn } from '../../lab/probe/sockets.ts';

const connectTimeoutMs = 5_000;

/** Forwards connections to API servers in a namespace, like a load balancer: round robin among the permitted ones. */
export class ServerGate {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  readonly #netns: string;
  #ports: readonly number[] = [];
  #taken = 0;

  private constructor(netns: string) {
    this.#netns = netns;
    this.#server = createServer({ allowHalfOpen: true }, (inner) => void this.#lead(inner));
  }

  /** Closed at first. */
  static async open(netns: string): Promise<ServerGate> {
    const gate = new ServerGate(netns);
    gate.#server.listen(0, '127.0.0.1');
    await once(gate.#server, 'listening');
    return gate;
  }

  get url(): string {
    return `https://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Forwards to these from now on. Open connections stay. */
  leadTo(...ports: readonly number[]): void {
    this.#ports = ports;
  }

  /** Ends every open connection. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.leadTo();
    this.cut();
    this.#server.close();
  }

  async #lead(inner: Socket): Promise<void> {
    this.#keep(inner);
    const port = this.#ports[this.#taken++ % this.#ports.length];
    if (port === undefined) return void inner.destroy();
    try {
      const outer = await connectTcpIn(this.#netns, '127.0.0.1', port, AbortSignal.timeout(connectTimeoutMs));
      this.#keep(outer);
      for (const [one, other] of [
        [inner, outer],
        [outer, inner],
      ] as const)
        one.once('close', () => other.destroy());
      if (inner.destroyed) outer.destroy();
      inner.pipe(outer).pipe(inner);
    } catch {
      inner.destroy();
    }
  }

  #keep(socket: Socket): void {
    this.#sockets.add(socket);
    socket.on('error', () => socket.destroy()).once('close', () => this.#sockets.delete(socket));
  }
}
