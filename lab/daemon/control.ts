import { chmodSync, rmSync } from 'node:fs';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import findMyWay from 'find-my-way';
import { SeineError, withoutCode } from '../../src/base/errors/seine-error.ts';

const answerBytesMax = 64 * 1024 * 1024;
const answerTimeoutMs = 120_000;

/** Answer to a request to the lab's daemon: a value sent as JSON, or lines as they happen. */
type ControlResponse =
  | { readonly is: 'value'; readonly value: unknown }
  | { readonly is: 'lines'; readonly each: (tell: (line: unknown) => void, ended: () => void) => () => void };

type ControlRoute = (parameters: Readonly<Record<string, string | undefined>>) => Promise<ControlResponse>;

/** Routes by method and path, such as `POST /ovs/:node/start`. */
export type ControlRoutes = Readonly<Record<string, ControlRoute>>;

/** Serves the routes on a socket only root can use. An old socket at that path is replaced. */
export function serveControl(socketPath: string, routes: ControlRoutes): Promise<Server> {
  const router = findMyWay();
  for (const [pattern, route] of Object.entries(routes)) {
    const [method, path = ''] = pattern.split(' ');
    router.on(method === 'POST' ? 'POST' : 'GET', path, () => undefined, route);
  }
  const server = createServer((asked, response) => {
    answer(router, asked, response).catch((error: unknown) => {
      const { message, code } = SeineError.from(error, 'answer');
      response.writeHead(code === 'INVALID_INPUT' ? 400 : 500, { 'content-type': 'application/json' });
      response.end(JSON.stringify({ error: message }));
    });
  });
  rmSync(socketPath, { force: true });
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(socketPath, () => {
      chmodSync(socketPath, 0o600);
      resolve(server);
    });
  });
}

async function answer(router: Pick<ReturnType<typeof findMyWay>, 'find'>, asked: IncomingMessage, response: ServerResponse): Promise<void> {
  asked.resume();
  const { method = '', url = '' } = asked;
  const found = method === 'GET' || method === 'POST' ? router.find(method, url) : null;
  if (found === null) throw new SeineError('INVALID_INPUT', `unknown request ${method} ${url}`);
  const route: ControlRoute = found.store;
  const reply = await route(found.params);
  response.writeHead(200, { 'content-type': 'application/json' });
  if (reply.is === 'value') response.end(JSON.stringify(reply.value ?? null));
  else streamLines(reply.each, response);
}

function streamLines(each: Extract<ControlResponse, { is: 'lines' }>['each'], response: ServerResponse): void {
  const stop = each(
    (line) => response.write(`${JSON.stringify(line)}\n`),
    () => response.end(),
  );
  response.once('close', stop);
}

/**
 * Sends a request to the daemon of a lab.
 *
 * @throws SeineError `UNAVAILABLE` if there is none, `REFUSED` with its error
 */
export async function askControl(socketPath: string, method: 'GET' | 'POST', path: string): Promise<unknown> {
  const response = await open(socketPath, method, path, AbortSignal.timeout(answerTimeoutMs));
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    const bytes = Buffer.from(chunk);
    size += bytes.length;
    if (size > answerBytesMax) throw new SeineError('PROTOCOL', "the response of the lab's daemon is too large");
    chunks.push(bytes);
  }
  const value: unknown = JSON.parse(Buffer.concat(chunks).toString('utf8'));
  if (response.statusCode === 200) return value;
  const said = typeof value === 'object' && value !== null && 'error' in value ? String(value.error) : 'an error';
  throw new SeineError('REFUSED', withoutCode(said));
}

/** The lines of a route, as values, until the daemon ends them or the signal does. */
export async function* followControl(socketPath: string, path: string, signal: AbortSignal): AsyncGenerator<unknown> {
  const response = await open(socketPath, 'GET', path, signal);
  response.setEncoding('utf8');
  let pending = '';
  for await (const text of response) {
    const lines = (pending + String(text)).split('\n');
    pending = lines.pop() ?? '';
    for (const line of lines) yield JSON.parse(line);
  }
}

function open(socketPath: string, method: string, path: string, signal: AbortSignal): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request({ socketPath, method, path, signal, agent: false }, resolve);
    sent.once('error', (error) => reject(SeineError.from(error, 'ask the daemon of the lab')));
    sent.end();
  });
}
