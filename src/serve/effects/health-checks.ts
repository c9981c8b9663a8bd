import type { ServerResponse } from 'node:http';
import type { Log } from '../../log/log.ts';
import { CheckServer } from './check-server.ts';

/** What a load balancer that asks a node about a Service is told. */
interface HealthCheck {
  readonly namespace: string;
  readonly name: string;
  readonly port: number;
  /** Ready endpoints on this node: while there are some, the load balancer may send here. */
  readonly localEndpoints: number;
}

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
    const server = this.#checks.get(key)?.server ?? this.#serverOf(key, check.port);
    this.#checks.set(key, { ...check, server });
  }

  #serverOf(key: string, port: number): CheckServer {
    const what = 'the health check port of a Service';
    return new CheckServer({ port, what, answer: (_, response) => this.#answer(key, response), log: this.#log });
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
