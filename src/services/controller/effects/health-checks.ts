import type { ServerResponse } from 'node:http';
import type { Log } from '../../../base/log/log.ts';
import { CheckServer } from './check-server.ts';

/** Information that a load balancer gets from a node about a Service. */
interface ServiceHealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Number of ready endpoints on this node: while it is positive, the load balancer may send here. */
  readonly localEndpoints: number;
}

interface ServiceHealthChecksOptions {
  readonly log: Log;
  /** Called with the cause while the port of a Service cannot be opened, and with undefined once it is open or no longer requested. */
  readonly onListen?: (key: string, port: number, cause: string | undefined) => void;
  /** Delay between two attempts to open a port (ms). */
  readonly retryMs?: number;
}

/**
 * HTTP servers, one for each Service with a `healthCheckNodePort` (externalTrafficPolicy Local): 200 while this node has an endpoint that
 * is ready, 503 otherwise. Answers have the form of kube-proxy's (pkg/proxy/healthcheck/service_health.go).
 */
export class ServiceHealthChecks {
  readonly #options: ServiceHealthChecksOptions;
  readonly #checks = new Map<string, ServiceHealthCheck & { readonly server: CheckServer }>();

  constructor(options: ServiceHealthChecksOptions) {
    this.#options = options;
  }

  /** Replaces the answer for a Service. @param check undefined: the Service has no such port */
  set(key: string, check: ServiceHealthCheck | undefined): void {
    const known = this.#checks.get(key);
    if (known && known.port !== check?.port) {
      this.#checks.delete(key);
      known.server.close();
      this.#options.onListen?.(key, known.port, undefined);
    }
    if (!check) return;
    const server = this.#checks.get(key)?.server ?? this.#serverOf(key, check.port);
    this.#checks.set(key, { ...check, server });
  }

  #serverOf(key: string, port: number): CheckServer {
    const { log, onListen, retryMs } = this.#options;
    return new CheckServer({
      port,
      what: 'the health check port of a Service',
      answer: (_, response) => this.#answer(key, response),
      onListen: (cause) => onListen?.(key, port, cause),
      log,
      ...(retryMs === undefined ? {} : { retryMs }),
    });
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
