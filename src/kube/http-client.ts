import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { SeineError } from '../errors/seine-error.ts';
import type { KubeAccess } from './config.ts';
import { parseJson } from './json-stream.ts';

export interface KubeRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  /** Starts with a slash. Names from outside must be escaped with {@link segment}. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** For a PATCH, e.g. `application/strategic-merge-patch+json`. */
  readonly contentType?: string;
  /** Until the headers of the answer are there. */
  readonly timeoutMs?: number;
}

/** One path segment from a name that came from outside. */
export function segment(name: string): string {
  return encodeURIComponent(name);
}

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
/** The kernel then probes each second and gives up after ten: a dead path is noticed in 25 s though nothing is sent. */
const KEEP_ALIVE_MS = 15_000;
const MAX_SOCKETS = 16;

/**
 * Speaks HTTP/1.1 to one API server over connections that are kept and probed.
 *
 * Every failure is a SeineError whose `context` has `method`, `path` and, if the server answered, `status`, `reason` (of its
 * `Status` object) and `retryAfterMs`:
 * `REFUSED` for an answer 4xx; `UNAVAILABLE` for an answer 5xx or none, where it is not known whether a write happened;
 * `CANCELLED` when the signal aborted.
 */
export class KubeHttp {
  readonly #access: KubeAccess;
  readonly #userAgent: string;
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;

  constructor(access: KubeAccess, userAgent: string) {
    this.#access = access;
    this.#userAgent = userAgent;
    const options = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE_MS, maxSockets: MAX_SOCKETS, maxFreeSockets: 2 };
    const secure = access.server.protocol === 'https:';
    this.#agent = secure ? new https.Agent(options) : new http.Agent(options);
    this.#request = secure ? https.request : http.request;
  }

  /** The answer's JSON, at most 4 MiB of it. */
  async json(request: KubeRequest, signal: AbortSignal): Promise<unknown> {
    const limit = AbortSignal.any([signal, AbortSignal.timeout(request.timeoutMs ?? DEFAULT_TIMEOUT_MS)]);
    const response = await this.#send(request, limit);
    try {
      return parseJson(await readAll(response, MAX_BODY_BYTES));
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  /**
   * The answer's bytes as they arrive. The caller reads to the end, or leaves the loop, or aborts; each frees the connection.
   *
   * @throws SeineError as the class says, also while reading
   */
  async *stream(request: KubeRequest, signal: AbortSignal): AsyncGenerator<Uint8Array, void> {
    const headersLate = new AbortController();
    const timer = setTimeout(() => headersLate.abort(), request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    try {
      const response = await this.#send(request, AbortSignal.any([signal, headersLate.signal])).finally(() => clearTimeout(timer));
      for await (const chunk of response) yield chunk as Uint8Array;
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  /** Closes idle connections. Those in use end with their request's signal. */
  close(): void {
    this.#agent.destroy();
  }

  async #send(request: KubeRequest, signal: AbortSignal): Promise<IncomingMessage> {
    try {
      const response = await this.#open(request, signal);
      const status = response.statusCode ?? 0;
      if (status >= 200 && status < 300) return response;
      if (status === 401) this.#access.distrust();
      throw await refusal(request, response);
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  async #open({ method = 'GET', path, query = {}, body, contentType }: KubeRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { headers, tls } = await this.#access.credentials();
    signal.throwIfAborted();
    const url = new URL(this.#access.server);
    url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`;
    url.search = new URLSearchParams(query).toString();
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const sent = this.#request(url, {
      ...tls,
      method,
      agent: this.#agent,
      signal,
      headers: {
        ...headers,
        Accept: 'application/json',
        'User-Agent': this.#userAgent,
        ...(payload ? { 'Content-Type': contentType ?? 'application/json', 'Content-Length': payload.length } : {}),
      },
    });
    sent.once('response', resolve);
    sent.on('error', reject); // stays: an error after the response must not be without listener
    sent.end(payload);
    return promise;
  }
}

/** What an answer other than 2xx means; reads (a bounded part of) its `Status` object. */
async function refusal(request: KubeRequest, response: IncomingMessage): Promise<SeineError> {
  const status = response.statusCode ?? 0;
  const said = statusObject(await readAll(response, MAX_ERROR_BYTES).catch(() => new Uint8Array(0)));
  const retryAfterMs = secondsToMs(said.retryAfterSeconds) ?? secondsToMs(Number(response.headers['retry-after'] ?? Number.NaN));
  return new SeineError(status >= 500 ? 'UNAVAILABLE' : 'REFUSED', `the API server answered ${status} ${said.reason}: ${said.message}`, {
    context: {
      method: request.method ?? 'GET',
      path: request.path,
      status,
      reason: said.reason,
      ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
    },
  });
}

interface StatusObject {
  readonly reason: string;
  readonly message: string;
  readonly retryAfterSeconds: number;
}

const MAX_MESSAGE_CHARS = 300;

/** Kubernetes' `metav1.Status`, or what can be said of a proxy's HTML. */
export function statusObject(bytes: Uint8Array): StatusObject {
  let value: unknown;
  try {
    value = parseJson(bytes);
  } catch {
    value = undefined;
  }
  const member = (from: unknown, name: string): unknown =>
    typeof from === 'object' && from !== null && Object.hasOwn(from, name) ? Reflect.get(from, name) : undefined;
  const text = (name: string): string => {
    const found = member(value, name);
    return typeof found === 'string' ? found.slice(0, MAX_MESSAGE_CHARS) : '';
  };
  const seconds = member(member(value, 'details'), 'retryAfterSeconds');
  return { reason: text('reason'), message: text('message'), retryAfterSeconds: typeof seconds === 'number' ? seconds : Number.NaN };
}

const MAX_RETRY_AFTER_MS = 300_000;

function secondsToMs(seconds: number): number | undefined {
  return seconds > 0 ? Math.min(seconds * 1_000, MAX_RETRY_AFTER_MS) : undefined;
}

async function readAll(response: IncomingMessage, maxBytes: number): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of response as AsyncIterable<Uint8Array>) {
    length += chunk.length;
    if (length > maxBytes) throw new SeineError('PROTOCOL', `the answer has more than ${maxBytes} bytes`);
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, length);
}

/** Errors of sockets and TLS have many shapes; all mean that there was no whole answer. */
function failure(request: KubeRequest, thrown: unknown, signal: AbortSignal): SeineError {
  if (thrown instanceof SeineError) return thrown;
  const context = { method: request.method ?? 'GET', path: request.path };
  if (signal.aborted && !isTimeout(signal.reason))
    return new SeineError('CANCELLED', 'request to the API server', { context, cause: thrown });
  const why = thrown instanceof Error ? thrown.message : String(thrown);
  // Node's own have a code, e.g. ERR_INVALID_CHAR for a token that is no header value; a bare one is a bug of ours.
  const bug = (thrown instanceof TypeError || thrown instanceof RangeError) && !('code' in thrown);
  const code = bug ? 'INVARIANT' : 'UNAVAILABLE';
  return new SeineError(code, `no whole answer from the API server: ${why}`, { context, cause: thrown });
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === 'TimeoutError';
}
