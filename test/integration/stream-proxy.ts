import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { connect, createServer, type Server, type Socket } from 'node:net';
import { JsonFramer } from '../../src/ovsdb/framer.ts';
import { isObject } from '../../src/ovsdb/json-rpc.ts';

/** Chunking of a server's bytes on their way to the client. */
export type ProxyMode = 'whole' | 'byte by byte' | 'slowly' | 'swallowed';

interface Conversation {
  readonly asked: Map<string, readonly unknown[]>;
  readonly fromClient: JsonFramer;
  readonly fromServer: JsonFramer;
}

/** A proxy between an OVSDB client and its server: records messages, delays them, or cuts the connection. */
export class RecordingProxy {
  readonly path: string;
  readonly #dir: string;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #mode: ProxyMode = 'whole';
  #refusing = false;
  #replies: { readonly method: string; readonly about: unknown; readonly result: unknown }[] = [];

  private constructor(target: string) {
    this.#dir = mkdtempSync('/run/seine-test-');
    this.path = `${this.#dir}/proxy`;
    this.#server = createServer((near) => this.#relay(near, target));
  }

  static async start(target: string): Promise<RecordingProxy> {
    const proxy = new RecordingProxy(target);
    proxy.#server.listen(proxy.path);
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** Cuts every connection, and accepts no other. */
  refuse(): void {
    this.#refusing = true;
    this.cut();
  }

  accept(): void {
    this.#refusing = false;
    this.#mode = 'whole';
  }

  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Discards the server's data from now on. */
  swallow(): void {
    this.#mode = 'swallowed';
  }

  deliver(mode: ProxyMode): void {
    this.#mode = mode;
  }

  clear(): void {
    this.#replies = [];
  }

  /** Answers of the server to a method, by its second parameter: the name of a monitor. */
  repliesTo(method: string, about: unknown): readonly unknown[] {
    return this.#replies.filter((reply) => reply.method === method && reply.about === about).map(({ result }) => result);
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
    rmSync(this.#dir, { recursive: true });
  }

  #relay(near: Socket, target: string): void {
    if (this.#refusing) return void near.destroy();
    const far = connect(target);
    const said: Conversation = { asked: new Map(), fromClient: new JsonFramer(), fromServer: new JsonFramer() };
    for (const socket of [near, far]) {
      this.#sockets.add(socket);
      socket.on('error', () => {});
      socket.on('close', () => {
        this.#sockets.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.on('data', (chunk) => {
      for (const { text } of said.fromClient.push(chunk)) noteRequest(said, JSON.parse(text));
      far.write(chunk);
    });
    let before = Promise.resolve();
    far.on('data', (chunk) => {
      for (const { text } of said.fromServer.push(chunk)) this.#noteReply(said, JSON.parse(text));
      before = before.then(() => this.#deliver(near, chunk));
    });
  }

  #noteReply({ asked }: Conversation, message: unknown): void {
    if (!isObject(message)) return;
    const [method, about] = asked.get(JSON.stringify(message['id'])) ?? [];
    if (typeof method === 'string') this.#replies.push({ method, about, result: message['result'] });
  }

  async #deliver(near: Socket, chunk: Uint8Array): Promise<void> {
    if (this.#mode === 'swallowed') return;
    const size = this.#mode === 'whole' ? chunk.length : this.#mode === 'slowly' ? 100 : 1;
    for (let at = 0; at < chunk.length && !near.destroyed; at += size) {
      near.write(chunk.subarray(at, at + size));
      // Each chunk in a separate read.
      if (size < chunk.length) await new Promise((resolve) => (this.#mode === 'slowly' ? setTimeout(resolve, 2) : setImmediate(resolve)));
    }
  }
}

function noteRequest({ asked }: Conversation, message: unknown): void {
  if (!isObject(message) || !Array.isArray(message['params'])) return;
  asked.set(JSON.stringify(message['id']), [message['method'], message['params'][1]]);
}
