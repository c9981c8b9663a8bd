import { type ClientRequest, type IncomingMessage, Agent as PlainAgent } from 'node:http';
import { Agent } from 'node:https';
import { createSecureContext, type SecureContext } from 'node:tls';
import { type RawData, WebSocket } from 'ws';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { KubeAccess, KubeCredentials } from './config.ts';
import { execChannels, execProtocols, exitCodeIn } from './exec-status.ts';
import { ExecStream } from './exec-stream.ts';
import { refusal, segment } from './http-client.ts';

interface PodExecRequest {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  /** Program and its arguments; there is no shell. */
  readonly command: readonly string[];
}

interface PodExecResult {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

const OUTPUT_BYTES_MAX = 16 * 1024 * 1024;

/**
 * Runs programs in containers through the API server, with the caller's own rights: `create` and `get` of `pods/exec`.
 *
 * Source: https://kubernetes.io/docs/reference/kubernetes-api/workload-resources/pod-v1/, "connect GET requests to exec of Pod", and
 * k8s.io/streaming/pkg/httpstream/wsstream for the channels.
 */
export class PodExec {
  readonly #access: KubeAccess;
  readonly #userAgent: string;
  /** Keeps no connections, for each ends with its program; but TLS sessions, which make the next one cheaper. */
  readonly #agent: Agent | PlainAgent;
  #context: { readonly of: KubeCredentials['tls']; readonly made: SecureContext } | undefined;

  constructor(access: KubeAccess, userAgent: string) {
    this.#access = access;
    this.#userAgent = userAgent;
    this.#agent = access.server.protocol === 'https:' ? new Agent({ keepAlive: false }) : new PlainAgent({ keepAlive: false });
  }

  /**
   * @param signal aborts the program, too, if the container's runtime supports that
   * @throws SeineError `REFUSED` if the API server or the runtime does not run it, `UNAVAILABLE` if there is no complete answer (it may
   * have run), `PROTOCOL` for more than 16 MiB, `CANCELLED` when the signal aborted
   */
  async run(request: PodExecRequest, signal: AbortSignal): Promise<PodExecResult> {
    const url = urlOf(this.#access.server, request, ['stdout', 'stderr']);
    const socket = await this.#connect(url, signal);
    const abort = (): void => socket.terminate();
    signal.addEventListener('abort', abort, { once: true });
    try {
      return await this.#answerOn(socket, url.pathname);
    } catch (thrown) {
      if (signal.aborted) throw abortedBy(signal);
      throw thrown;
    } finally {
      signal.removeEventListener('abort', abort);
      socket.terminate();
    }
  }

  /**
   * Starts a program, and returns its standard streams once the API server has accepted it.
   *
   * @param signal ends the waiting; the caller destroys the stream
   * @throws SeineError `REFUSED` if the API server does not run it, `UNAVAILABLE` if it does not answer, `CANCELLED` when the signal aborted
   */
  async open(request: PodExecRequest, signal: AbortSignal): Promise<ExecStream> {
    const url = urlOf(this.#access.server, request, ['stdin', 'stdout', 'stderr']);
    const socket = await this.#connect(url, signal);
    const stream = new ExecStream(socket);
    const abort = (): void => void stream.destroy();
    signal.addEventListener('abort', abort, { once: true });
    try {
      await new Promise<void>((resolve, reject) => {
        this.#onRefusal(socket, url.pathname, reject);
        stream.once('error', reject);
        stream.once('close', () => reject(new SeineError('UNAVAILABLE', 'the exec has ended')));
        socket.once('open', () => {
          stream.removeListener('error', reject);
          resolve();
        });
      });
      return stream;
    } catch (thrown) {
      stream.on('error', () => undefined).destroy(); // its failure is `thrown`
      if (signal.aborted) throw abortedBy(signal);
      throw thrown;
    } finally {
      signal.removeEventListener('abort', abort);
    }
  }

  async #connect(url: URL, signal: AbortSignal): Promise<WebSocket> {
    const { headers, tls } = await this.#access.credentials();
    signal.throwIfAborted();
    return new WebSocket(url, execProtocols, {
      ...tls,
      ...(url.protocol === 'wss:' ? { secureContext: this.#secureContext(tls) } : {}),
      agent: this.#agent,
      headers: { ...headers, 'User-Agent': this.#userAgent },
      perMessageDeflate: false,
      maxPayload: OUTPUT_BYTES_MAX,
    });
  }

  #onRefusal(socket: WebSocket, path: string, refuse: (error: unknown) => void): void {
    socket.on('unexpected-response', (request: ClientRequest, response: IncomingMessage) => {
      if (response.statusCode === 401) this.#access.invalidate();
      void refusal({ method: 'GET', path }, response)
        .then(refuse)
        .finally(() => request.destroy());
    });
  }

  /**
   * Returns one context for all connections: reading certificates takes as long as a handshake, and as much memory until it is collected.
   */
  #secureContext(tls: KubeCredentials['tls']): SecureContext {
    if (this.#context?.of !== tls) this.#context = { of: tls, made: createSecureContext(tls) };
    return this.#context.made;
  }

  #answerOn(socket: WebSocket, path: string): Promise<PodExecResult> {
    const heard: ExecOutput = { stdout: [], stderr: [], status: [], bytes: 0 };
    return new Promise((resolve, reject) => {
      socket.on('message', (data) => {
        if (!hear(heard, data)) reject(new SeineError('PROTOCOL', `the answer has more than ${OUTPUT_BYTES_MAX} bytes`));
      });
      this.#onRefusal(socket, path, reject);
      socket.on('error', (cause) =>
        reject(new SeineError('UNAVAILABLE', `no whole answer from the API server: ${cause.message}`, { cause })),
      );
      // Channels are not ordered with each other: the answer is complete when the connection has ended, not when the status arrives.
      socket.on('close', () => {
        try {
          resolve(resultOf(heard));
        } catch (thrown) {
          reject(thrown);
        }
      });
    });
  }
}

function urlOf(server: URL, { namespace, pod, container, command }: PodExecRequest, streams: readonly string[]): URL {
  const url = new URL(server);
  url.protocol = server.protocol === 'https:' ? 'wss:' : 'ws:';
  url.pathname = `${url.pathname.replace(/\/$/, '')}/api/v1/namespaces/${segment(namespace)}/pods/${segment(pod)}/exec`;
  url.search = new URLSearchParams([
    ...command.map((word): [string, string] => ['command', word]),
    ['container', container],
    ...streams.map((stream): [string, string] => [stream, 'true']),
  ]).toString();
  return url;
}

interface ExecOutput {
  readonly stdout: Uint8Array[];
  readonly stderr: Uint8Array[];
  readonly status: Uint8Array[];
  bytes: number;
}

/** @returns false if it is too much */
function hear(heard: ExecOutput, data: RawData): boolean {
  const message = Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Uint8Array);
  heard.bytes += message.length;
  const name = (['stdout', 'stderr', 'status'] as const).find((each) => execChannels[each] === message[0]);
  if (name !== undefined) heard[name].push(message.subarray(1));
  return heard.bytes <= OUTPUT_BYTES_MAX;
}

/** @throws SeineError like `exitCodeIn` */
function resultOf({ stdout, stderr, status }: ExecOutput): PodExecResult {
  return { exitCode: exitCodeIn(text(status)), stdout: text(stdout), stderr: text(stderr) };
}

function text(pieces: readonly Uint8Array[]): string {
  return Buffer.concat(pieces).toString('utf8');
}

function abortedBy(signal: AbortSignal): SeineError {
  const late = signal.reason instanceof Error && signal.reason.name === 'TimeoutError';
  return late ? new SeineError('UNAVAILABLE', 'no answer in time') : new SeineError('CANCELLED', 'exec', { cause: signal.reason });
}
