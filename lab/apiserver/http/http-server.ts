import { timingSafeEqual } from 'node:crypto';
import { once } from 'node:events';
import { type IncomingMessage, ServerResponse } from 'node:http';
import {
  createSecureServer,
  type Http2SecureServer,
  type Http2ServerRequest,
  type Http2ServerResponse,
  type IncomingHttpHeaders,
} from 'node:http2';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { SeineError } from '../../../src/base/errors/seine-error.ts';
import type { Log } from '../../../src/base/log/log.ts';
import { ApiError, statusOf } from '../errors/api-error.ts';
import type { ApiRequest, ApiResponse, User } from './api-request.ts';
import type { UpgradedConnection } from './exec.ts';
import { isPublic } from './public-paths.ts';

interface HttpOptions {
  readonly certPem: string;
  readonly keyPem: string;
  /** Users by bearer token. */
  readonly tokens: ReadonlyMap<string, User>;
  /** User of a service account's token. */
  readonly accountOf?: (token: string) => User | undefined;
  readonly log: Log;
  serve(request: ApiRequest): Promise<ApiResponse>;
  /** Takes over the connection of a request with `Upgrade`. @throws ApiError */
  upgrade?(request: ApiRequest, connection: UpgradedConnection): void;
}

export type Listener = { readonly fd: number } | { readonly host: string; readonly port: number };

interface HttpServer {
  /** Ports in the order of the listeners; 0 for a descriptor without a port. */
  readonly ports: readonly number[];
  /** Ends watches and connections and waits until they are gone. */
  close(): Promise<void>;
}

const bodyLimit = 3 * 1024 * 1024;
/** Memory limit of an HTTP/2 session. Node refuses further streams above it; its default of 10 is less than one large list. */
const sessionMemoryMiB = 1024;
/** Longer than clients keep idle connections, so that the clients close them. */
const keepAliveMs = 300_000;

/**
 * Serves HTTP/2 and HTTP/1.1 over TLS on every listener.
 *
 * @throws SeineError `UNAVAILABLE` if it cannot listen on one of them
 */
export async function startHttp(listeners: readonly Listener[], options: HttpOptions): Promise<HttpServer> {
  const closing = new AbortController();
  const sockets = new Set<Socket>();
  const servers = listeners.map(() => newServer(options, sockets, closing.signal));
  for (const [index, server] of servers.entries()) {
    const listener = listeners[index];
    if (listener === undefined) continue;
    try {
      server.listen(listener);
      await once(server, 'listening');
    } catch (cause) {
      for (const opened of servers) opened.close();
      throw SeineError.from(cause, 'listening for API requests');
    }
  }
  return {
    ports: servers.map((server) => portOf(server)),
    close: async () => {
      closing.abort();
      const closed = servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
      for (const socket of sockets) socket.destroy();
      await Promise.all(closed);
    },
  };
}

function portOf(server: Http2SecureServer): number {
  const address = server.address();
  return typeof address === 'object' && address !== null ? address.port : 0;
}

function newServer(options: HttpOptions, sockets: Set<Socket>, closing: AbortSignal): Http2SecureServer {
  const server = createSecureServer({
    key: options.keyPem,
    cert: options.certPem,
    allowHTTP1: true,
    maxSessionMemory: sessionMemoryMiB,
    http1Options: { keepAliveTimeout: keepAliveMs },
  });
  server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
    // A client that disconnects in the middle of a request is not an error of the server.
    socket.on('error', () => socket.destroy());
  });
  server.on('sessionError', (error) => options.log.debug('http2 session failed', { error: error.message }));
  if (options.upgrade)
    server.on('upgrade', (raw: IncomingMessage, socket: Duplex, head: Buffer) => upgrade({ raw, socket, head }, options));
  server.on('request', (request, response) => {
    exchange(request, response, options, closing).catch((thrown: unknown) => {
      options.log.error('request failed', {
        path: request.url,
        error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
      });
      response.stream?.destroy();
      request.socket?.destroy();
    });
  });
  return server;
}

/** Answers a refused request as HTTP: nothing was accepted yet. */
function upgrade(connection: UpgradedConnection, options: HttpOptions): void {
  const { raw, socket } = connection;
  try {
    options.upgrade?.(apiRequest(raw, options), connection);
  } catch (thrown) {
    const error = thrown instanceof ApiError ? thrown : new ApiError(500, 'InternalError', String(thrown));
    const body = JSON.stringify(statusOf(error));
    const head = [`HTTP/1.1 ${error.code} ${error.reason}`, 'Content-Type: application/json', `Content-Length: ${Buffer.byteLength(body)}`];
    socket.end(`${head.join('\r\n')}\r\nConnection: close\r\n\r\n${body}`);
  }
}

async function exchange(
  request: Http2ServerRequest,
  response: Http2ServerResponse,
  options: HttpOptions,
  closing: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  response.once('close', () => gone.abort());
  response.on('error', () => gone.abort());
  const answer = await answerOf(request, options);
  if (!('stream' in answer)) return sendWhole(request, response, answer);
  response.writeHead(200, { 'content-type': answer.contentType, 'cache-control': 'no-cache, private' });
  const signal = AbortSignal.any([gone.signal, closing]);
  const write = async (text: string) => {
    if (signal.aborted || response.write(text)) return;
    // Ends with an error when the client disconnects; the loop that writes sees the signal.
    await once(response, 'drain', { signal }).catch(() => undefined);
  };
  // HTTP/1.1 would delay the headers until the first event; a client must see them immediately.
  if (response instanceof ServerResponse) response.flushHeaders();
  await answer.stream(write, signal);
  if (!gone.signal.aborted) response.end();
}

function sendWhole(request: Http2ServerRequest, response: Http2ServerResponse, answer: Exclude<ApiResponse, { stream: unknown }>): void {
  const body = typeof answer.body === 'string' ? Buffer.from(answer.body) : answer.body;
  for (const [name, value] of Object.entries(answer.headers ?? {})) response.setHeader(name, value);
  if (answer.warnings !== undefined && answer.warnings.length > 0)
    response.setHeader(
      'warning',
      answer.warnings.map((text) => `299 - ${JSON.stringify(headerText(text))}`),
    );
  response.setHeader('cache-control', 'no-cache, private');
  response.setHeader('content-type', answer.contentType);
  response.setHeader('content-length', String(body.length));
  response.writeHead(answer.code);
  if (request.method === 'HEAD') response.end();
  else response.end(body);
}

/** Reduces text to printable ASCII, as header values require. */
function headerText(text: string): string {
  return text.replaceAll(/[^\x20-\x7e]/g, '?');
}

async function answerOf(request: Http2ServerRequest, options: HttpOptions): Promise<ApiResponse> {
  try {
    return await options.serve(apiRequest(request, options));
  } catch (thrown) {
    const error = thrown instanceof ApiError ? thrown : internalError(thrown, request, options.log);
    // Unread bytes of a rejected body would be parsed as the next request.
    request.resume();
    const headers =
      error.details.retryAfterSeconds === undefined ? {} : { headers: { 'retry-after': String(error.details.retryAfterSeconds) } };
    return { code: error.code, contentType: 'application/json', body: JSON.stringify(statusOf(error)), ...headers };
  }
}

function internalError(thrown: unknown, request: Http2ServerRequest, log: Log): ApiError {
  log.error('serving a request failed', {
    method: request.method,
    path: request.url,
    error: thrown instanceof Error ? (thrown.stack ?? thrown.message) : String(thrown),
  });
  return new ApiError(500, 'InternalError', `Internal error occurred: ${thrown instanceof Error ? thrown.message : String(thrown)}`);
}

function apiRequest(request: Http2ServerRequest | IncomingMessage, options: HttpOptions): ApiRequest {
  const [path = '/', search = ''] = splitOnce(request.url ?? '/', '?');
  const { headers } = request;
  const known = userOf(headers.authorization, options) ?? (isPublic(path) ? anonymous : undefined);
  if (known === undefined) throw new ApiError(401, 'Unauthorized', 'Unauthorized');
  const user = impersonated(known, headers);
  return {
    method: request.method ?? 'GET',
    path,
    query: new URLSearchParams(search),
    accept: headers.accept ?? '',
    contentType: headers['content-type'] ?? '',
    userAgent: headers['user-agent'] ?? '',
    user,
    body: () => readBody(request),
  };
}

const anonymous: User = { name: 'system:anonymous', groups: ['system:unauthenticated'] };

/** `kubectl --as`: administrators may act as any user. @throws ApiError 403 for others */
function impersonated(user: User, headers: IncomingHttpHeaders): User {
  const name = headers['impersonate-user'];
  if (typeof name !== 'string') return user;
  if (!user.groups.includes('system:masters'))
    throw new ApiError(
      403,
      'Forbidden',
      `users ${JSON.stringify(name)} is forbidden: User ${JSON.stringify(user.name)} cannot impersonate resource "users"`,
    );
  const asked = headers['impersonate-group'];
  const groups = typeof asked === 'string' ? asked.split(',').map((group) => group.trim()) : (asked ?? []);
  const account = /^system:serviceaccount:([^:]+):/.exec(name)?.[1];
  return {
    name,
    groups: [
      ...groups,
      ...(account === undefined ? [] : ['system:serviceaccounts', `system:serviceaccounts:${account}`]),
      'system:authenticated',
    ],
  };
}

function splitOnce(text: string, separator: string): [string, string?] {
  const index = text.indexOf(separator);
  return index < 0 ? [text] : [text.slice(0, index), text.slice(index + 1)];
}

function userOf(authorization: string | undefined, { tokens, accountOf }: HttpOptions): User | undefined {
  const given = Buffer.from(/^Bearer (.+)$/i.exec(authorization ?? '')?.[1] ?? '');
  for (const [token, user] of tokens) {
    const known = Buffer.from(token);
    if (known.length === given.length && timingSafeEqual(known, given)) return user;
  }
  return accountOf?.(given.toString('utf8'));
}

async function readBody(request: Http2ServerRequest | IncomingMessage): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of request as AsyncIterable<Uint8Array>) {
    length += chunk.length;
    if (length > bodyLimit) throw new ApiError(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${bodyLimit}`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
