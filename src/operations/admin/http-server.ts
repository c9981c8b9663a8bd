import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https';
import type { Socket } from 'node:net';
import { ConnectionLimit } from '../../base/async/connection-limit.ts';
import { limitConnections } from '../../base/async/http-connections.ts';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { WatchedUnixSocket } from '../../base/files/watched-unix-socket.ts';
import type { Log } from '../../base/log/log.ts';
import { type ApiAnswer, type ApiRoutes, text } from './answer.ts';
import type { ServerCertificate } from './metrics/certificate.ts';

/** Time limits for sending a request, and for reading the answer (ms). */
interface ApiTimeouts {
  readonly requestMs: number;
  readonly answerMs: number;
  /** From an answer on the unix socket until the next request: an exec relay of seinectl keeps its connection (ms). */
  readonly keptMs?: number;
}

const patience: ApiTimeouts = { requestMs: 1_500, answerMs: 30_000, keptMs: 90_000 };
/** Maximum size of request line and headers together; more is answered with 431. */
const HEADER_BYTES_MAX = 8 * 1024;
const CONNECTIONS_MAX = 64;
/** Maximum number of concurrent answers; an answer contains a copy of its data. */
const ANSWERS_MAX = 8;

export interface ApiOptions {
  readonly routes: ApiRoutes;
  /** Paths for POST: those that change something. */
  readonly actions?: ApiRoutes;
  /** Checks the credentials of a unix socket's peer (SO_PEERCRED); a refused connection is closed without an answer. */
  readonly admits?: (socket: Socket) => boolean;
  /** Called before each answer; its result is sent instead. */
  readonly refuses?: (request: IncomingMessage, signal: AbortSignal) => Promise<ApiAnswer | undefined>;
  readonly timeouts?: ApiTimeouts;
}

/** Place to listen: a socket 0600 in a folder 0700, which is recreated when it is removed, or an address. */
type ApiListenOptions = ApiSocket | ApiAddress;

interface ApiSocket {
  readonly socketPath: string;
  readonly log: Log;
  /** See `KeptSocket`. */
  readonly checkMs?: number;
}

interface ApiAddress {
  readonly host: string;
  readonly port: number;
  /** Absent: without TLS. */
  readonly tls?: ServerCertificate;
}

/** HTTP server for operators and monitoring. */
export class ApiServer {
  readonly #options: ApiOptions;
  readonly #connections: ConnectionLimit;
  readonly #keptMs: number;
  #listening: WatchedUnixSocket | TcpListener | undefined;
  #answering = 0;

  /** @throws SeineError `REFUSED` if another agent's socket exists, `UNAVAILABLE` if it cannot listen there, `INVALID_INPUT` */
  static async start(options: ApiOptions, place: ApiListenOptions): Promise<ApiServer> {
    const { requestMs, keptMs = requestMs } = options.timeouts ?? patience;
    const server = new ApiServer(options, 'socketPath' in place ? keptMs : requestMs);
    server.#listening = 'socketPath' in place ? await server.#onSocket(place) : await listenAt(place, server.#make(place.tls));
    return server;
  }

  private constructor(options: ApiOptions, keptMs: number) {
    this.#options = options;
    this.#keptMs = keptMs;
    this.#connections = new ConnectionLimit({ most: CONNECTIONS_MAX, ...(options.timeouts ?? patience), keptMs });
  }

  /** Port of the server; allocated by the kernel for port 0. */
  get port(): number | undefined {
    return this.#listening instanceof WatchedUnixSocket ? undefined : this.#listening?.port;
  }

  /** Sets the certificate of later connections. @throws Error if it is invalid */
  renewCertificate(certificate: ServerCertificate): void {
    if (this.#listening instanceof WatchedUnixSocket) return;
    this.#listening?.renewCertificate(certificate);
  }

  /** Closes all connections. */
  async close(): Promise<void> {
    const closed = this.#listening?.close();
    this.#connections.closeAll();
    await closed;
  }

  async #onSocket({ socketPath: path, log, checkMs }: ApiSocket): Promise<WatchedUnixSocket> {
    const make = (): Server => {
      this.#connections.closeWaiting(); // their clients retry with the new server
      return this.#makePlain();
    };
    const without = 'the API socket cannot be created; the agent runs without an API';
    return await WatchedUnixSocket.listen({ path, name: 'API socket', without, make, log, ...(checkMs === undefined ? {} : { checkMs }) });
  }

  #make(tls: ServerCertificate | undefined): Server | TlsServer {
    if (tls === undefined) return this.#makePlain();
    const { requestMs } = this.#options.timeouts ?? patience;
    return this.#bounded(createTlsServer({ ...this.#limits, ...tls, minVersion: 'TLSv1.2', handshakeTimeout: requestMs }, this.#handle));
  }

  #makePlain(): Server {
    return this.#bounded(createServer(this.#limits, this.#handle));
  }

  get #limits() {
    // The limit of connections has the deadlines. Node reports its keep-alive timeout to clients.
    return { headersTimeout: 0, requestTimeout: 0, maxHeaderSize: HEADER_BYTES_MAX, keepAliveTimeout: this.#keptMs };
  }

  readonly #handle = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);

  #bounded<S extends Server | TlsServer>(server: S): S {
    limitConnections(server, this.#connections, (socket) => isAdmitted(this.#options, socket));
    return server;
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort(new SeineError('CANCELLED', 'the client has closed the connection')));
    this.#answering++;
    try {
      const { status, contentType, headers, body } = await this.#answer(request, gone.signal);
      response.writeHead(status, { ...headers, 'content-type': contentType, 'cache-control': 'no-store' });
      if (request.method === 'HEAD') response.end();
      else if (typeof body === 'string') response.end(body);
      else await this.#send(body, response, gone.signal);
    } catch {
      // The client has closed or reads nothing, or reading the node failed: the answer breaks off.
      response.destroy();
    } finally {
      this.#answering--;
    }
  }

  async #answer(request: IncomingMessage, signal: AbortSignal): Promise<ApiAnswer> {
    const acts = request.method === 'POST' && this.#options.actions !== undefined;
    if (request.method !== 'GET' && request.method !== 'HEAD' && !acts)
      return { ...text('only GET is served', 405), headers: { allow: 'GET, HEAD' } };
    // A client that does not read its answer does not block others.
    if (this.#answering > ANSWERS_MAX && !this.#connections.closeSlowReader())
      return { ...text('too many requests at once', 503), headers: { 'retry-after': '1' } };
    const url = URL.parse(request.url ?? '/', 'http://agent');
    if (!url) return text('not a valid path', 400);
    const routes = acts ? (this.#options.actions ?? {}) : this.#options.routes;
    const route = Object.hasOwn(routes, url.pathname) ? routes[url.pathname] : undefined;
    const refusal = await this.#options.refuses?.(request, signal);
    if (refusal) return refusal;
    if (!route) return text(`nothing at ${JSON.stringify(url.pathname)}; there is ${Object.keys(routes).join(' ')}`, 404);
    try {
      return await route(url.searchParams, signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, url.pathname);
      return text(error.message, error.code === 'INVALID_INPUT' ? 400 : error.code === 'UNAVAILABLE' ? 503 : 500);
    }
  }

  /** Sends the parts as fast as the client reads them. @throws if it stops reading */
  async #send(parts: AsyncIterable<string>, response: ServerResponse, signal: AbortSignal): Promise<void> {
    const { answerMs } = this.#options.timeouts ?? patience;
    for await (const part of parts) {
      signal.throwIfAborted();
      if (!response.write(part)) await once(response, 'drain', { signal: within(signal, answerMs) });
    }
    response.end();
  }
}

/** A peer without credentials is refused. */
function isAdmitted({ admits }: ApiOptions, socket: Socket): boolean {
  try {
    return admits === undefined || admits(socket);
  } catch {
    return false;
  }
}

interface TcpListener {
  readonly port: number | undefined;
  renewCertificate(certificate: ServerCertificate): void;
  close(): Promise<void>;
}

async function listenAt(place: ApiAddress, server: Server | TlsServer): Promise<TcpListener> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(SeineError.from(error, `listen on ${place.host} port ${place.port}`)));
    server.listen({ host: place.host, port: place.port }, resolve);
  });
  server.on('error', () => undefined); // a connection that could not be accepted: its client retries
  const address = server.address();
  return {
    port: typeof address === 'object' ? address?.port : undefined,
    renewCertificate: (certificate) => {
      if ('setSecureContext' in server) server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
    },
    close: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}
