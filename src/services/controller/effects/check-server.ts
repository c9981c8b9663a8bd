import { createServer, type Server, type ServerResponse } from 'node:http';
import { ConnectionLimit } from '../../../base/async/connection-limit.ts';
import { limitConnections } from '../../../base/async/http-connections.ts';
import { idle } from '../../../base/async/pause.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Log } from '../../../base/log/log.ts';
import { AGENTS_BACKLOG } from '../kube-proxy.ts';

interface CheckServerOptions {
  readonly port: number;
  /** Address to listen on; all addresses of the node, of all its families, if omitted. */
  readonly host?: string;
  /** Name for the log. */
  readonly what: string;
  /** Answers a request. @param path without query */
  readonly answer: (path: string, response: ServerResponse) => void;
  readonly log: Log;
  /** Delay between two attempts to open the port (ms). */
  readonly retryMs?: number;
  /** Called with the cause each time the port cannot be opened, and with undefined once it is open. */
  readonly onListen?: (cause: string | undefined) => void;
}

const LISTEN_RETRY_MS = 5_000;
const MOST_CONNECTIONS = 256;
/** Timeout of a connection (ms). An answer is a few hundred bytes: a client that does not read it in time is disconnected. */
const ANSWER_MS = 1_500;

/** Server for load balancers' health checks. It listens as soon as no other process has the port; no client can occupy it. */
export class CheckServer {
  readonly #options: CheckServerOptions;
  readonly #stop = new AbortController();
  readonly #server: Server;
  readonly #connections = new ConnectionLimit({ most: MOST_CONNECTIONS, answerMs: ANSWER_MS });
  #host: string;

  constructor(options: CheckServerOptions) {
    this.#options = options;
    this.#host = options.host ?? '::';
    // The connection limit has the deadlines; Node's own are for connections that have sent a part of a request, and are checked twice a
    // minute.
    this.#server = createServer({ requestTimeout: 0, headersTimeout: 0, maxHeaderSize: 8_192 }, (request, response) => {
      request.resume();
      options.answer((request.url ?? '').split('?')[0] ?? '', response);
    });
    limitConnections(this.#server, this.#connections);
    this.#server.on('clientError', (_, socket) => socket.destroy());
    void this.#listen();
  }

  /** False while another process has the port. */
  get listens(): boolean {
    return this.#server.listening;
  }

  close(): void {
    this.#stop.abort();
    this.#server.close();
    this.#connections.closeAll();
  }

  /** Opens the port. Never rejects: the rest of the agent works without it. */
  async #listen(): Promise<void> {
    const { signal } = this.#stop;
    const { port, what, log, onListen } = this.#options;
    for (let reported = false; !signal.aborted; reported = true) {
      try {
        await this.#once(port);
        if (!signal.aborted) onListen?.(undefined);
        return;
      } catch (thrown) {
        if (this.#host === '::' && isWithoutIpv6(thrown)) {
          this.#host = '0.0.0.0';
          continue;
        }
        const cause = SeineError.from(thrown, 'listen').message;
        if (!signal.aborted) onListen?.(cause);
        if (!reported) log.error(`${what} is in use; retrying`, { port, cause });
      }
      await idle(this.#options.retryMs ?? LISTEN_RETRY_MS, signal);
    }
  }

  async #once(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host: this.#host, ipv6Only: false, backlog: AGENTS_BACKLOG }, () => {
        this.#server.off('error', reject);
        this.#server.on('error', () => undefined); // error of accepting; the next client may succeed
        if (this.#stop.signal.aborted) this.#server.close();
        resolve();
      });
    });
  }
}

function isWithoutIpv6(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && (thrown.code === 'EAFNOSUPPORT' || thrown.code === 'EADDRNOTAVAIL');
}
