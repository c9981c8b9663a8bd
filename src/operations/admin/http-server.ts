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

/** How long a client may take to send a request, and to read the answer (ms). */
interface ApiTimeouts {
  readonly requestMs: number;
  readonly answerMs: number;
}

const patience: ApiTimeouts = { requestMs: 1_500, answerMs: 30_000 };
/** Request line and headers together; more is answered 431. */
const HEADER_BYTES_MAX = 8 * 1024;
const CONNECTIONS_MAX = 64;
/** Answers that are made at a time; an answer holds a copy of what it tells. */
const ANSWERS_MAX = 8;

export interface ApiOptions {
  readonly routes: ApiRoutes;
  /** Asked for by POST: what changes something. */
  readonly actions?: ApiRoutes;
  /** SO_PEERCRED says who is at the other end of a unix socket; whom this refuses is turned away without a word. */
  readonly admits?: (socket: Socket) => boolean;
  /** Asked before each answer; what it gives is the answer instead. */
  readonly refuses?: (request: IncomingMessage, signal: AbortSignal) => Promise<ApiAnswer | undefined>;
  readonly timeouts?: ApiTimeouts;
}

/** Where to listen: a socket 0600 in a folder 0700, which is made anew when it is removed, or an address. */
type ApiListenOptions = ApiSocket | ApiAddress;

interface ApiSocket {
  readonly socketPath: string;
  readonly log: Log;
  /** See `KeptSocket`. */
  readonly lookMs?: number;
}

interface ApiAddress {
  readonly host: string;
  readonly port: number;
  /** Absent: without TLS. */
  readonly tls?: ServerCertificate;
}

/** HTTP for those who look at the agent. */
export class ApiServer {
  readonly #options: ApiOptions;
  readonly #connections: ConnectionLimit;
  #listening: WatchedUnixSocket | TcpListener | undefined;
  #answering = 0;

  /** @throws SeineError `REFUSED` if another agent's socket is there, `UNAVAILABLE` if it cannot listen there, `INVALID_INPUT` */
  static async start(options: ApiOptions, place: ApiListenOptions): Promise<ApiServer> {
    const server = new ApiServer(options);
    server.#listening = 'socketPath' in place ? await server.#onSocket(place) : await listenAt(place, server.#make(place.tls));
    return server;
  }

  private constructor(options: ApiOptions) {
    this.#options = options;
    this.#connections = new ConnectionLimit({ most: CONNECTIONS_MAX, ...(options.timeouts ?? patience) });
  }

  /** The address it got; for port 0. */
  get port(): number | undefined {
    return this.#listening instanceof WatchedUnixSocket ? undefined : this.#listening?.port;
  }

  /** For connections from now on. @throws Error if it is none */
  renewCertificate(certificate: ServerCertificate): void {
    if (this.#listening instanceof WatchedUnixSocket) return;
    this.#listening?.renewCertificate(certificate);
  }

  /** Lets go of every client. */
  async close(): Promise<void> {
    const closed = this.#listening?.close();
    this.#connections.closeAll();
    await closed;
  }

  async #onSocket({ socketPath: path, log, lookMs }: ApiSocket): Promise<WatchedUnixSocket> {
    const make = (): Server => {
      this.#connections.closeWaiting(); // their clients try again, at the new server
      return this.#makePlain();
    };
    const without = 'the agent has no API: its socket cannot be made';
    return await WatchedUnixSocket.listen({ path, name: 'API socket', without, make, log, ...(lookMs === undefined ? {} : { lookMs }) });
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
    const { requestMs } = this.#options.timeouts ?? patience;
    // The limit of connections has the deadlines. Node sends clients of an idle connection how long it is kept.
    return { headersTimeout: 0, requestTimeout: 0, maxHeaderSize: HEADER_BYTES_MAX, keepAliveTimeout: requestMs };
  }

  readonly #handle = (request: IncomingMessage, response: ServerResponse): void => void this.#serve(request, response);

  #bounded<S extends Server | TlsServer>(server: S): S {
    limitConnections(server, this.#connections, (socket) => isAdmitted(this.#options, socket));
    return server;
  }

  /** Never rejects. */
  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const gone = new AbortController();
    response.on('close', () => gone.abort(new SeineError('CANCELLED', 'the client has gone')));
    this.#answering++;
    try {
      const { status, contentType, headers, body } = await this.#answer(request, gone.signal);
      response.writeHead(status, { ...headers, 'content-type': contentType, 'cache-control': 'no-store' });
      if (request.method === 'HEAD') response.end();
      else if (typeof body === 'string') response.end(body);
      else await this.#send(body, response, gone.signal);
    } catch {
      // The client has gone, or takes nothing, or the node could not be read to the end: it sees an answer that breaks off.
      response.destroy();
    } finally {
      this.#answering--;
    }
  }

  async #answer(request: IncomingMessage, signal: AbortSignal): Promise<ApiAnswer> {
    const acts = request.method === 'POST' && this.#options.actions !== undefined;
    if (request.method !== 'GET' && request.method !== 'HEAD' && !acts)
      return { ...text('only GET is served', 405), headers: { allow: 'GET, HEAD' } };
    // A client that does not read its answer does not keep others from theirs.
    if (this.#answering > ANSWERS_MAX && !this.#connections.closeSlowReader())
      return { ...text('too many requests at once', 503), headers: { 'retry-after': '1' } };
    const url = URL.parse(request.url ?? '/', 'http://agent');
    if (!url) return text('that is no path', 400);
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

/** A peer without credentials is not served. */
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
  server.on('error', () => undefined); // a connection that could not be accepted: its client tries again
  const address = server.address();
  return {
    port: typeof address === 'object' ? address?.port : undefined,
    renewCertificate: (certificate) => {
      if ('setSecureContext' in server) server.setSecureContext({ ...certificate, minVersion: 'TLSv1.2' });
    },
    close: () => new Promise<void>((resolve) => void server.close(() => resolve())),
  };
}
