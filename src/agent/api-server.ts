import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { dirname } from 'node:path';
import { SeineError } from '../errors/seine-error.ts';

/** What one path answers. */
export interface ApiAnswer {
  readonly status: number;
  readonly contentType: 'application/json' | 'text/plain; version=0.0.4' | 'text/plain';
  readonly body: string;
}

/** By path, without query. */
export type ApiRoutes = Readonly<Record<string, (query: URLSearchParams, signal: AbortSignal) => Promise<ApiAnswer> | ApiAnswer>>;

export function json(value: unknown, status = 200): ApiAnswer {
  return {
    status,
    contentType: 'application/json',
    body: `${JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? each.toString() : each))}\n`,
  };
}

export function text(body: string, status = 200): ApiAnswer {
  return { status, contentType: 'text/plain', body: `${body}\n` };
}

/** Read-only HTTP. On a unix socket 0600 for everything, on an address for what routes one gives it. */
export async function serveApi(
  routes: ApiRoutes,
  where: { readonly socketPath: string } | { readonly host: string; readonly port: number },
): Promise<Server> {
  const server = createServer(
    { requestTimeout: 10_000, headersTimeout: 5_000, maxHeaderSize: 8 * 1024 },
    (request, response) => void answer(routes, request, response),
  );
  server.maxConnections = 64;
  const listenOn = 'socketPath' in where ? prepareSocket(where.socketPath) : where;
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error) => reject(SeineError.from(error, `listen on ${JSON.stringify(where)}`)));
    server.listen(listenOn, resolve);
  });
  if ('socketPath' in where) chmodSync(where.socketPath, 0o600);
  return server;
}

/** Only one agent runs for a bridge, so what is left of a socket is an earlier one's. */
function prepareSocket(path: string): { readonly path: string } {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  rmSync(path, { force: true });
  return { path };
}

async function answer(routes: ApiRoutes, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  const { status, contentType, body } = await answerTo(routes, request, gone.signal);
  response.writeHead(status, { 'content-type': contentType, 'content-length': Buffer.byteLength(body) });
  response.end(request.method === 'HEAD' ? '' : body);
}

async function answerTo(routes: ApiRoutes, request: IncomingMessage, signal: AbortSignal): Promise<ApiAnswer> {
  if (request.method !== 'GET' && request.method !== 'HEAD') return text('only GET is served', 405);
  const url = new URL(request.url ?? '/', 'http://agent');
  const route = Object.hasOwn(routes, url.pathname) ? routes[url.pathname] : undefined;
  if (!route) return text(`nothing at ${JSON.stringify(url.pathname)}; there is ${Object.keys(routes).join(' ')}`, 404);
  try {
    return await route(url.searchParams, signal);
  } catch (thrown) {
    return text(SeineError.from(thrown, url.pathname).message, 500);
  }
}
