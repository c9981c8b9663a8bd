import http, { type IncomingMessage } from 'node:http';
import https from 'node:https';
import { addAbortSignal } from 'node:stream';
import * as z from 'zod';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess } from './config.ts';
import { parseJson } from './json/json-stream.ts';

interface KubeRequest {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  /** Starts with a slash. Names from outside must be escaped with {@link segment}. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Media types of the answer; JSON if omitted. */
  readonly accept?: string;
  /** Media type of a PATCH, e.g. `application/strategic-merge-patch+json`. */
  readonly contentType?: string;
  /** Timeout for the headers of the answer (ms). */
  readonly timeoutMs?: number;
}

/**
 * Returns one path segment from a name that came from outside.
 *
 * @throws SeineError `INVALID_INPUT` for a name that would change the path: no object has it
 */
export function segment(name: string): string {
  if (name === '' || name === '.' || name === '..')
    throw new SeineError('INVALID_INPUT', `${JSON.stringify(name)} is not the name of an object`);
  return encodeURIComponent(name);
}

const DEFAULT_TIMEOUT_MS = 30_000;
const MAX_BODY_BYTES = 4 * 1024 * 1024;
const MAX_ERROR_BYTES = 64 * 1024;
/**
 * Idle time before keep-alive probes (ms). The kernel then probes each second and gives up after ten: a dead path is noticed in 25 s though
 * nothing is sent.
 */
const KEEP_ALIVE_MS = 15_000;
const MAX_SOCKETS = 16;
const MAX_FREE_SOCKETS = 2;

/**
 * HTTP/1.1 client of one API server over connections that are kept and probed.
 *
 * Every failure is a SeineError whose `context` has `method`, `path` and, if the server answered, `status`, `reason` (of its `Status`
 * object), `causes` (their reasons) and `retryAfterMs`: `REFUSED` for an answer 4xx; `UNAVAILABLE` for an answer 5xx or none, where it is
 * unknown whether a write happened; `CANCELLED` when the signal aborted.
 */
export class KubeHttp {
  readonly #access: KubeAccess;
  readonly #userAgent: string;
  readonly #agent: http.Agent;
  readonly #request: typeof http.request;

  constructor(access: KubeAccess, userAgent: string) {
    this.#access = access;
    this.#userAgent = userAgent;
    const options = { keepAlive: true, keepAliveMsecs: KEEP_ALIVE_MS, maxSockets: MAX_SOCKETS, maxFreeSockets: MAX_FREE_SOCKETS };
    const secure = access.server.protocol === 'https:';
    this.#agent = secure ? new https.Agent(options) : new http.Agent(options);
    this.#request = secure ? https.request : http.request;
  }

  /** Name or address of the server; an IPv6 address in brackets. */
  get host(): string {
    return this.#access.server.hostname;
  }

  get port(): number {
    const { port, protocol } = this.#access.server;
    if (port !== '') return Number(port);
    return protocol === 'https:' ? 443 : 80;
  }

  /** Returns the answer's JSON, at most 4 MiB of it. */
  async json(request: KubeRequest, signal: AbortSignal): Promise<unknown> {
    const limit = within(signal, request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const response = await this.#send(request, limit);
    try {
      return parseJson(await readAll(response, MAX_BODY_BYTES));
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  /** Returns the `Date` header of the answer, whose body is ignored; undefined if it has none. */
  async date(request: KubeRequest, signal: AbortSignal): Promise<string | undefined> {
    const limit = within(signal, request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    const response = await this.#send(request, limit);
    try {
      await readAll(response, MAX_BODY_BYTES);
      return response.headers.date;
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  /**
   * Yields the answer's bytes as they arrive. The caller reads to the end, or leaves the loop, or aborts; each frees the connection.
   *
   * @param onAccepted called once the server has accepted the request, which may be long before it sends data
   * @throws SeineError like the class, also while reading
   */
  async *stream(request: KubeRequest, signal: AbortSignal, onAccepted?: () => void): AsyncGenerator<Uint8Array, void> {
    const headersLate = new AbortController();
    const timer = setTimeout(() => headersLate.abort(), request.timeoutMs ?? DEFAULT_TIMEOUT_MS);
    try {
      const response = await this.#send(request, AbortSignal.any([signal, headersLate.signal])).finally(() => clearTimeout(timer));
      onAccepted?.();
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
      const response = await this.#openOnLiveConnection(request, signal);
      const status = response.statusCode ?? 0;
      if (status >= 200 && status < 300) return response;
      if (status === 401) this.#access.invalidate();
      throw await refusal(request, response);
    } catch (thrown) {
      throw failure(request, thrown, signal);
    }
  }

  /**
   * Sends a request. The server may just have closed a kept connection, which shows only when it is used. A request that changes nothing is
   * then sent again; for one that changes something, only the caller can find out whether it was executed.
   */
  async #openOnLiveConnection(request: KubeRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const mayRepeat = (request.method ?? 'GET') === 'GET';
    for (let stale = 0; ; stale++) {
      try {
        return await this.#open(request, signal);
      } catch (thrown) {
        const closed = thrown instanceof ClosedBeforeUse;
        if (!closed || !mayRepeat || stale === MAX_FREE_SOCKETS) throw closed ? thrown.cause : thrown;
      }
    }
  }

  async #open({ method = 'GET', path, query = {}, body, accept, contentType }: KubeRequest, signal: AbortSignal): Promise<IncomingMessage> {
    const { headers, tls } = await this.#access.credentials();
    signal.throwIfAborted();
    const url = new URL(this.#access.server);
    url.pathname = `${url.pathname.replace(/\/$/, '')}${path}`;
    url.search = new URLSearchParams(query).toString();
    const payload = body === undefined ? undefined : Buffer.from(JSON.stringify(body));
    const options = {
      ...tls,
      method,
      agent: this.#agent,
      headers: {
        ...headers,
        Accept: accept ?? 'application/json',
        'User-Agent': this.#userAgent,
        ...(payload ? { 'Content-Type': contentType ?? 'application/json', 'Content-Length': payload.length } : {}),
      },
    };
    return new Promise((resolve, reject) => {
      const sent = this.#request(url, options);
      const abort = () => sent.destroy(new Error('aborted'));
      // Not the option `signal`: aborted just after the answer's end, that destroys a socket without a listener, and the process dies of
      // its error. From the response on, the response is destroyed instead.
      signal.addEventListener('abort', abort, { once: true });
      sent.once('response', (response) => {
        signal.removeEventListener('abort', abort);
        resolve(addAbortSignal(signal, response));
      });
      sent.on('error', (error) => {
        signal.removeEventListener('abort', abort);
        reject(sent.reusedSocket && 'code' in error && error.code === 'ECONNRESET' ? new ClosedBeforeUse(error) : error);
      });
      sent.end(payload);
    });
  }
}

/** Result of a request on a kept connection that turned out to be closed. */
class ClosedBeforeUse {
  readonly cause: Error;

  constructor(cause: Error) {
    this.cause = cause;
  }
}

/** Returns the error of an answer other than 2xx; reads (a bounded part of) its `Status` object. */
export async function refusal(request: KubeRequest, response: IncomingMessage): Promise<SeineError> {
  const status = response.statusCode ?? 0;
  const said = await readStatus(response);
  const retryAfterMs = secondsToMs(said.retryAfterSeconds) ?? secondsToMs(Number(response.headers['retry-after'] ?? Number.NaN));
  return new SeineError(
    status >= 500 ? 'UNAVAILABLE' : 'REFUSED',
    `the API server answered ${[status, said.reason].join(' ').trim()}: ${said.message}`,
    {
      context: {
        method: request.method ?? 'GET',
        path: request.path,
        status,
        reason: said.reason,
        causes: said.causes,
        ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
      },
    },
  );
}

interface StatusObject {
  readonly reason: string;
  readonly message: string;
  readonly retryAfterSeconds: number;
  /** `details.causes[].reason`. */
  readonly causes: readonly string[];
}

const MAX_MESSAGE_CHARS = 300;
const MAX_CAUSES = 8;

const statusSchema = z.object({
  reason: z.string().catch(''),
  message: z.string().catch(''),
  details: z
    .object({
      retryAfterSeconds: z.number().catch(0),
      causes: z.array(z.object({ reason: z.string().catch('') })).catch([]),
    })
    .catch({ retryAfterSeconds: 0, causes: [] }),
});

/** Returns Kubernetes' `metav1.Status`, or the available information about a proxy's HTML. */
export function statusObject(value: unknown): StatusObject {
  const parsed = statusSchema.safeParse(value);
  const { reason, message, details } = parsed.success ? parsed.data : noStatus;
  return {
    reason,
    message: message.slice(0, MAX_MESSAGE_CHARS),
    retryAfterSeconds: details.retryAfterSeconds,
    causes: details.causes.slice(0, MAX_CAUSES).map((cause) => cause.reason),
  };
}

const noStatus: z.output<typeof statusSchema> = { reason: '', message: '', details: { retryAfterSeconds: 0, causes: [] } };

async function readStatus(response: IncomingMessage): Promise<StatusObject> {
  try {
    return statusObject(parseJson(await readAll(response, MAX_ERROR_BYTES)));
  } catch {
    return statusObject(undefined); // only the status code is known then
  }
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

/** Returns the error of a request. Errors of sockets and TLS have many shapes; all mean that there was no complete answer. */
function failure(request: KubeRequest, thrown: unknown, signal: AbortSignal): SeineError {
  if (thrown instanceof SeineError) return thrown;
  const context = { method: request.method ?? 'GET', path: request.path };
  if (signal.aborted && !isTimeout(signal.reason))
    return new SeineError('CANCELLED', 'request to the API server', { context, cause: thrown });
  const seen: unknown = signal.aborted ? signal.reason : thrown;
  const why = seen instanceof Error ? seen.message : String(seen);
  // Node's own have a code, e.g. ERR_INVALID_CHAR for a token that is not a valid header value; one without code is a bug.
  const bug = (thrown instanceof TypeError || thrown instanceof RangeError) && !('code' in thrown);
  const code = bug ? 'INVARIANT' : 'UNAVAILABLE';
  return new SeineError(code, `no whole answer from the API server: ${why}`, { context, cause: thrown });
}

function isTimeout(reason: unknown): boolean {
  return reason instanceof Error && reason.name === 'TimeoutError';
}
