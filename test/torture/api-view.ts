import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { Socket } from 'node:net';
import type { Api } from './api.ts';

/**
 * The API server as a virgin agent sees it: it reads what there is, and what it writes is answered as if it had been written
 * (`dryRun=All`). Plain HTTP on a unix socket, with the driver's own credentials.
 */
export class ApiView {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async open(socketPath: string, api: Api): Promise<ApiView> {
    rmSync(socketPath, { force: true });
    const view = new ApiView(createServer((asked, answer) => pass(api, asked, answer)));
    await new Promise<void>((resolve, reject) => {
      view.#server.once('error', reject);
      view.#server.listen(socketPath, resolve);
    });
    return view;
  }

  close(): void {
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
  }
}

function pass(api: Api, asked: IncomingMessage, answer: ServerResponse): void {
  const { method = 'GET', url = '/' } = asked;
  const path = method === 'GET' ? url : `${url}${url.includes('?') ? '&' : '?'}dryRun=All`;
  const sent = request(api.options(method, path, forwarded(asked)), (got) => {
    answer.writeHead(got.statusCode ?? 502, got.headers);
    answer.flushHeaders();
    got.pipe(answer);
    // A watch that the server ends without its last chunk ends so here, too.
    got.once('error', () => answer.destroy());
  });
  sent.once('error', () => answer.destroy());
  answer.once('close', () => sent.destroy());
  asked.pipe(sent);
}

function forwarded({ headers }: IncomingMessage): Record<string, string> {
  const names = ['accept', 'content-type', 'content-length', 'transfer-encoding'];
  return Object.fromEntries(names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])));
}
