import { createServer, type Server, type ServerResponse } from 'node:http';
import { idle } from '../../async/pause.ts';
import { SeineError } from '../../errors/seine-error.ts';
import type { Log } from '../../log/log.ts';

/** What a load balancer that asks a node about a Service is told. */
interface HealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Ready endpoints on this node: while there are some, the load balancer may send here. */
  readonly localEndpoints: number;
}

const LISTEN_RETRY_MS = 5_000;
const MOST_CONNECTIONS = 256;
const PATIENCE_MS = 5_000;

/**
 * One HTTP server for each Service with a `healthCheckNodePort` (externalTrafficPolicy Local): 200 while this node has an endpoint
 * that is ready, 503 otherwise. Answers have the form of kube-proxy's (pkg/proxy/healthcheck/service_health.go).
 */
export class HealthChecks {
  readonly #log: Log;
  readonly #checks = new Map<string, HealthCheck & { readonly server: CheckServer }>();

  constructor(log: Log) {
    this.#log = log;
  }

  /** Replaces what is told about a Service. @param check undefined: it has no port for that */
  set(key: string, check: HealthCheck | undefined): void {
    const known = this.#checks.get(key);
    if (known && known.port !== check?.port) {
      this.#checks.delete(key);
      known.server.close();
    }
    if (!check) return;
    const server = this.#checks.get(key)?.server ?? new CheckServer(check.port, (response) => this.#answer(key, response), this.#log);
    this.#checks.set(key, { ...check, server });
  }

  get size(): number {
    return this.#checks.size;
  }

  close(): void {
    for (const { server } of this.#checks.values()) server.close();
    this.#checks.clear();
  }

  #answer(key: string, response: ServerResponse): void {
    const check = this.#checks.get(key);
    const localEndpoints = check?.localEndpoints ?? 0;
    const service = check && { namespace: check.namespace, name: check.name };
    const body = Buffer.from(`${JSON.stringify({ service, localEndpoints, serviceProxyHealthy: true })}\n`);
    response.writeHead(localEndpoints > 0 ? 200 : 503, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'X-Content-Type-Options': 'nosniff',
      'X-Load-Balancing-Endpoint-Weight': String(localEndpoints),
      Connection: 'close',
    });
    response.end(body);
  }
}

/** Listens on all addresses of the node, as soon as no other process has the port. */
class CheckServer {
  readonly #stop = new AbortController();
  readonly #server: Server;
  /** Of both families, where there are two. */
  #address: '::' | '0.0.0.0' = '::';

  constructor(port: number, answer: (response: ServerResponse) => void, log: Log) {
    this.#server = createServer({ requestTimeout: PATIENCE_MS, headersTimeout: PATIENCE_MS, maxHeaderSize: 8_192 }, (request, response) => {
      request.resume();
      answer(response);
    });
    this.#server.maxConnections = MOST_CONNECTIONS;
    this.#server.on('clientError', (_, socket) => socket.destroy());
    void this.#listen(port, log);
  }

  close(): void {
    this.#stop.abort();
    this.#server.close();
    this.#server.closeAllConnections();
  }

  /** Never rejects: a Service without its health check port is served all the same. */
  async #listen(port: number, log: Log): Promise<void> {
    const { signal } = this.#stop;
    for (let reported = false; !signal.aborted; reported = true) {
      try {
        await this.#once(port);
        return;
      } catch (thrown) {
        if (this.#address === '::' && isWithoutIpv6(thrown)) {
          this.#address = '0.0.0.0';
          continue;
        }
        const cause = SeineError.from(thrown, 'listen').message;
        if (!reported) log.error('the health check port of a Service is taken; trying again', { port, cause });
      }
      await idle(LISTEN_RETRY_MS, signal);
    }
  }

  async #once(port: number): Promise<void> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen({ port, host: this.#address, ipv6Only: false }, () => {
        this.#server.off('error', reject);
        this.#server.on('error', () => undefined); // of accepting; the next client may fare better
        if (this.#stop.signal.aborted) this.#server.close();
        resolve();
      });
    });
  }
}

function isWithoutIpv6(thrown: unknown): boolean {
  return thrown instanceof Error && 'code' in thrown && (thrown.code === 'EAFNOSUPPORT' || thrown.code === 'EADDRNOTAVAIL');
}
