import { createHash, randomBytes, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { UiFailure } from '../answers/failure.ts';
import type { PageFile } from './page-files.ts';

/**
 * Computes the answer of one path. @throws SeineError: `INVALID_INPUT` (400), `REFUSED` (403), with `context.absent` (404), others (503)
 *
 * @param body text of the request; empty for GET
 */
export type UiRoute = (query: URLSearchParams, signal: AbortSignal, body: string) => Promise<unknown>;

export interface UiServerOptions {
  /** Routes below `/api/`, for GET. */
  readonly routes: Readonly<Record<string, UiRoute>>;
  /** Routes that send requests beyond reads of state: POST with the header `ACTION_HEADER`. */
  readonly actions: Readonly<Record<string, UiRoute>>;
  /** Files of the page by path; `/` is the document. */
  readonly files: ReadonlyMap<string, PageFile>;
  /** 0: any free port. */
  readonly port: number;
  /** Time without a request after which the server ends (ms). */
  readonly idleMs: number;
}

export interface UiServer {
  /** Address with the one-time token. */
  readonly url: string;
  readonly port: number;
  /** Resolves when the server has ended, because it was idle or closed. */
  readonly ended: Promise<void>;
  close(): void;
}

/** Header that no form and no simple request of another site can send. */
const ACTION_HEADER = 'x-seine-action';

const TOKEN_BYTES = 32;
const HEADER_BYTES_MAX = 16 * 1024;
const REQUEST_TIMEOUT_MS = 10_000;
const CONNECTIONS_MAX = 32;
/** Manifests of a proposal. */
const BODY_BYTES_MAX = 4 * 1024 * 1024;

const policy = [
  "default-src 'none'",
  ...['script-src', 'style-src', 'connect-src', 'img-src', 'worker-src'].map((directive) => `${directive} 'self'`),
  ...["base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"],
].join('; ');

/** Headers of every answer. Source: W3C Content Security Policy 3, Fetch Metadata; RFC 6797 does not apply to loopback. */
const securityHeaders = {
  'content-security-policy': policy,
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'cache-control': 'no-store',
} as const;

/**
 * Serves the page on 127.0.0.1, and on ::1 where the host has it.
 *
 * The address contains a token that is valid once; it becomes a cookie that scripts cannot read and that other sites do not send. A request with
 * another Host or Origin is refused, so that a name which resolves to this host does not reach the page.
 *
 * @throws SeineError `UNAVAILABLE` if the port is in use
 */
export async function startUiServer(options: UiServerOptions): Promise<UiServer> {
  const session = new Session();
  const servers: Server[] = [];
  let idle: NodeJS.Timeout | undefined;
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  const close = (): void => {
    clearTimeout(idle);
    for (const server of servers) server.close().closeAllConnections();
    end();
  };
  idle = setTimeout(close, options.idleMs);
  const handle = (request: IncomingMessage, response: ServerResponse): void => {
    idle?.refresh();
    void serve(request, response, { options, session, port });
  };
  const first = await listen(handle, '127.0.0.1', options.port);
  const { port } = first.address() as AddressInfo;
  servers.push(first);
  // A host without IPv6, or another process on this port of ::1: the page is served on 127.0.0.1 alone.
  const second = await listen(handle, '::1', port).catch(() => undefined);
  if (second) servers.push(second);
  return { url: `http://127.0.0.1:${port}/?token=${session.token}`, port, ended, close };
}

async function listen(handle: (request: IncomingMessage, response: ServerResponse) => void, host: string, port: number): Promise<Server> {
  const server = createServer(
    { maxHeaderSize: HEADER_BYTES_MAX, requestTimeout: REQUEST_TIMEOUT_MS, headersTimeout: REQUEST_TIMEOUT_MS },
    handle,
  );
  server.maxConnections = CONNECTIONS_MAX;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(SeineError.from(error, `listen on ${host} port ${port}`)));
    server.listen({ host, port, exclusive: true }, resolve);
  });
  return server;
}

/** One-time token, and the secret of the cookie that it is exchanged for. */
class Session {
  readonly token = randomBytes(TOKEN_BYTES).toString('base64url');
  readonly #secret = randomBytes(TOKEN_BYTES).toString('base64url');
  #isUsed = false;

  /** @returns the value of the cookie; undefined for another token, or one that was used */
  exchange(token: string): string | undefined {
    if (this.#isUsed || !isEqual(token, this.token)) return undefined;
    this.#isUsed = true;
    return this.#secret;
  }

  admits(cookie: string): boolean {
    return isEqual(cookie, this.#secret);
  }
}

function isEqual(given: string, secret: string): boolean {
  const [a, b] = [given, secret].map((text) => createHash('sha256').update(text).digest());
  return a !== undefined && b !== undefined && timingSafeEqual(a, b);
}

interface UiContext {
  readonly options: UiServerOptions;
  readonly session: Session;
  readonly port: number;
}

/** Never rejects. */
async function serve(request: IncomingMessage, response: ServerResponse, context: UiContext): Promise<void> {
  const { session, port } = context;
  const url = URL.parse(request.url ?? '/', 'http://page');
  if (!url || !isOwnSite(request, port)) return sendText(response, 403, 'This address belongs to another site.');
  const token = url.searchParams.get('token');
  if (token !== null) return enter(response, { session, port, url, token });
  if (!session.admits(cookieOf(request, port)))
    return sendText(
      response,
      403,
      'Open the address that `seinectl ui` printed. It is valid once, in one browser: run the command again for another.',
    );
  if (url.pathname.startsWith('/api/')) return await serveRoute(request, response, url, context);
  const file = context.options.files.get(url.pathname);
  if (request.method !== 'GET' && request.method !== 'HEAD') return sendText(response, 405, 'only GET is served');
  if (!file) return sendText(response, 404, 'There is no such page.');
  response.writeHead(200, { ...securityHeaders, 'content-type': file.type }).end(file.content);
}

function enter(response: ServerResponse, { session, port, url, token }: { session: Session; port: number; url: URL; token: string }): void {
  const secret = session.exchange(token);
  if (secret === undefined) {
    sendText(response, 403, 'This address was used already: run `seinectl ui` again.');
    return;
  }
  url.searchParams.delete('token');
  response
    .writeHead(303, {
      ...securityHeaders,
      location: `/${url.search}`,
      'set-cookie': `${cookieName(port)}=${secret}; Path=/; HttpOnly; SameSite=Strict`,
    })
    .end();
}

/** Cookies are shared by all ports of a host. */
function cookieName(port: number): string {
  return `seine-ui-${port}`;
}

function cookieOf({ headers }: IncomingMessage, port: number): string {
  const prefix = `${cookieName(port)}=`;
  const found = (headers.cookie ?? '').split(/;\s*/).find((each) => each.startsWith(prefix));
  return found?.slice(prefix.length) ?? '';
}

function isOwnSite({ headers }: IncomingMessage, port: number): boolean {
  const hosts = [`127.0.0.1:${port}`, `[::1]:${port}`];
  const { host, origin } = headers;
  if (host === undefined || !hosts.includes(host)) return false;
  if (origin !== undefined && origin !== `http://${host}`) return false;
  const site = headers['sec-fetch-site'];
  return site === undefined || site === 'same-origin' || site === 'none';
}

async function serveRoute(request: IncomingMessage, response: ServerResponse, url: URL, { options }: UiContext): Promise<void> {
  const name = url.pathname.slice('/api/'.length);
  const isAction = request.method === 'POST';
  if (request.method !== 'GET' && !isAction) return sendFailure(response, 405, { kind: 'invalid', message: 'only GET is served' });
  if (isAction && request.headers[ACTION_HEADER] !== '1')
    return sendFailure(response, 403, { kind: 'forbidden', message: `the header ${ACTION_HEADER} is missing` });
  const routes = isAction ? options.actions : options.routes;
  const route = Object.hasOwn(routes, name) ? routes[name] : undefined;
  if (!route) return sendFailure(response, 404, { kind: 'invalid', message: 'there is no such question' });
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  try {
    const answer = await route(url.searchParams, gone.signal, isAction ? await bodyOf(request) : '');
    const body = JSON.stringify(answer);
    response.writeHead(200, { ...securityHeaders, 'content-type': 'application/json' }).end(body);
  } catch (thrown) {
    const { status, failure } = failureOf(thrown);
    sendFailure(response, status, failure);
  }
}

/** @throws SeineError `INVALID_INPUT` for a text that is too long */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > BODY_BYTES_MAX) throw new SeineError('INVALID_INPUT', `the text has more than ${BODY_BYTES_MAX} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function failureOf(thrown: unknown): { readonly status: number; readonly failure: UiFailure } {
  const error = SeineError.from(thrown, 'answer');
  const message = error.rawMessage;
  if (error.context['absent'] === true) return { status: 404, failure: { kind: 'absent', message } };
  if (error.code === 'INVALID_INPUT') return { status: 400, failure: { kind: 'invalid', message } };
  if (error.code === 'REFUSED') return { status: 403, failure: { kind: 'forbidden', message } };
  return { status: 503, failure: { kind: 'unavailable', message } };
}

function sendFailure(response: ServerResponse, status: number, error: UiFailure): void {
  response.writeHead(status, { ...securityHeaders, 'content-type': 'application/json' }).end(JSON.stringify({ error }));
}

function sendText(response: ServerResponse, status: number, text: string): void {
  response.writeHead(status, { ...securityHeaders, 'content-type': 'text/plain; charset=utf-8' }).end(`${text}\n`);
}
