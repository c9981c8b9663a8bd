import http, { type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import type { KubeAccess } from '../client/config.ts';

/** Reaction of the server to one request. */
type ScriptedResponse = (request: IncomingMessage, response: ServerResponse, signal: AbortSignal) => Promise<void> | void;

/**
 * Scripted API server for tests: each request gets the next answer of the script, or waits for one. It can violate every guarantee of a
 * real one.
 */
export class ScriptedApiServer {
  /** `METHOD path?query` of each request, in order. */
  readonly requests: string[] = [];
  readonly bodies: unknown[] = [];
  readonly #script: ScriptedResponse[] = [];
  readonly #waiting: ((answer: ScriptedResponse) => void)[] = [];
  readonly #stop = new AbortController();
  readonly #server = http.createServer((request, response) => void this.#serve(request, response));

  async listen(): Promise<KubeAccess> {
    await new Promise<void>((resolve) => this.#server.listen(0, '127.0.0.1', resolve));
    const { port } = this.#server.address() as AddressInfo;
    const server = new URL(`http://127.0.0.1:${port}`);
    return { server, credentials: async () => ({ headers: {}, tls: {} }), invalidate: () => this.requests.push('distrust') };
  }

  answer(...answers: readonly ScriptedResponse[]): void {
    for (const answer of answers) {
      const waiting = this.#waiting.shift();
      if (waiting) waiting(answer);
      else this.#script.push(answer);
    }
  }

  async close(): Promise<void> {
    this.#stop.abort();
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
  }

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    this.requests.push(`${request.method} ${decodeURIComponent(request.url ?? '').replace(/timeoutSeconds=\d+/, 'timeoutSeconds=N')}`);
    const body: Uint8Array[] = [];
    for await (const chunk of request) body.push(chunk as Uint8Array);
    if (body.length > 0) this.bodies.push(JSON.parse(Buffer.concat(body).toString()));
    const answer = this.#script.shift() ?? (await new Promise<ScriptedResponse>((resolve) => this.#waiting.push(resolve)));
    const gone = new AbortController();
    response.once('close', () => gone.abort());
    await Promise.resolve(answer(request, response, AbortSignal.any([this.#stop.signal, gone.signal]))).catch(() => response.destroy());
  }
}

export function json(value: unknown, status = 200, headers: Record<string, string> = {}): ScriptedResponse {
  return (_request, response) => {
    response.writeHead(status, { 'content-type': 'application/json', ...headers }).end(JSON.stringify(value));
  };
}

export function status(code: number, reason: string, details: object = {}): ScriptedResponse {
  return json({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: `said ${reason}`, details }, code);
}

/** Returns a list as the API server prints it. */
export function list(version: string, items: readonly unknown[]): ScriptedResponse {
  return json({ kind: 'List', apiVersion: 'v1', metadata: { resourceVersion: version }, items });
}

/** Watch that sends these lines, then ends, or stays open until the client leaves. */
export function watch(lines: readonly unknown[], then: 'end' | 'stay' | 'cut' = 'stay'): ScriptedResponse {
  return async (_request, response, signal) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    response.flushHeaders();
    const text = lines.map((line) => (typeof line === 'string' ? line : `${JSON.stringify(line)}\n`)).join('');
    if (text !== '') await new Promise((resolve) => response.write(text, resolve));
    if (then === 'end') response.end();
    else if (then === 'cut') response.destroy();
    else await untilAborted(signal);
  };
}

/** Sends text byte by byte, `everyMs` apart. */
export function dribble(text: string, everyMs: number): ScriptedResponse {
  return async (_request, response, signal) => {
    response.writeHead(200, { 'content-type': 'application/json' });
    for (const byte of Buffer.from(text)) {
      response.write(Buffer.of(byte));
      await sleep(everyMs, undefined, { signal });
    }
    response.end();
  };
}

export function event(type: string, object: unknown): unknown {
  return { type, object };
}

export function bookmark(version: string, initialEventsEnd = false): unknown {
  const annotations = initialEventsEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {};
  return { type: 'BOOKMARK', object: { metadata: { resourceVersion: version, ...annotations } } };
}

async function untilAborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }));
}
