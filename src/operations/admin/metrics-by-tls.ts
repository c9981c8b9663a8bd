import { readFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import { CallerReview } from '../../kubernetes/client/caller-review.ts';
import type { KubeHttp } from '../../kubernetes/client/http-client.ts';
import { type ApiAnswer, type ApiRoutes, text } from './answer.ts';
import { ApiServer } from './http-server.ts';
import { type ServerCertificate, selfSigned } from './metrics/certificate.ts';

export interface MetricsTlsConfig {
  readonly nodeName: string;
  /** `ADDRESS:PORT`; empty: none. */
  readonly metricsTLSAddress: string;
  readonly metricsTLSCertFile?: string | undefined;
  readonly metricsTLSKeyFile?: string | undefined;
}

/** API server that authenticates and authorizes callers. */
export interface CallersPort {
  readonly http: Pick<KubeHttp, 'json'>;
}

interface MetricsTlsParts extends CallersPort {
  readonly config: MetricsTlsConfig;
  /** Routes of the plain port; only `/metrics` of them is served. */
  readonly routes: ApiRoutes;
  readonly log: Log;
  /** Interval between checks of the certificate's files (ms). */
  readonly checkMs?: number;
}

const metricsPath = '/metrics';
const CHECK_MS = 60_000;

/**
 * `/metrics` for the network: over TLS, and only for callers that the API server authenticates and RBAC allows to `get` it. Probes do not
 * depend on it.
 */
export class MetricsByTls {
  readonly #parts: MetricsTlsParts;
  readonly #review: CallerReview;

  constructor(parts: MetricsTlsParts) {
    this.#parts = parts;
    this.#review = new CallerReview({ http: parts.http, path: metricsPath });
  }

  /** @throws SeineError if it cannot listen there, or a file is not a certificate or not a key */
  async start(address: { readonly host: string; readonly port: number }, signal: AbortSignal): Promise<ApiServer> {
    const { routes } = this.#parts;
    const { [metricsPath]: metrics } = routes;
    const certificate = this.#certificate();
    // The agent's signal and not the request's: one review is shared by all callers with a token.
    const refuses = (request: IncomingMessage) => this.#refuses(request, signal);
    const server = await ApiServer.start(
      { routes: metrics ? { [metricsPath]: metrics } : {}, refuses },
      { ...address, tls: certificate },
    ).catch((thrown: unknown) => {
      throw SeineError.from(thrown, 'metrics by TLS');
    });
    if (this.#parts.config.metricsTLSCertFile !== undefined) void this.#keepCertificate(server, certificate, signal);
    return server;
  }

  #certificate(): ServerCertificate {
    const { nodeName, metricsTLSCertFile: cert, metricsTLSKeyFile: key } = this.#parts.config;
    if (cert === undefined || key === undefined) return selfSigned(nodeName, Date.now());
    return { cert: readFileSync(cert, 'utf8'), key: readFileSync(key, 'utf8') };
  }

  /** Reloads a certificate from files that others renew. Never rejects: the previous one stays until both files match. */
  async #keepCertificate(server: ApiServer, first: ServerCertificate, signal: AbortSignal): Promise<void> {
    const { log, checkMs = CHECK_MS } = this.#parts;
    for (let used = first; ; ) {
      await idle(checkMs, signal);
      if (signal.aborted) return;
      try {
        const now = this.#certificate();
        log.working('metrics certificate');
        if (now.cert === used.cert && now.key === used.key) continue;
        server.renewCertificate(now);
        used = now;
        log.info('loaded a new certificate for the metrics server', {});
      } catch (thrown) {
        log.failing('metrics certificate', 'the metrics’ certificate cannot be renewed', {
          cause: SeineError.from(thrown, 'read').message,
        });
      }
    }
  }

  async #refuses({ headers }: IncomingMessage, signal: AbortSignal): Promise<ApiAnswer | undefined> {
    const [, token = ''] = /^bearer +(\S+)$/i.exec(headers.authorization ?? '') ?? [];
    try {
      const verdict = await this.#review.verdict(token, signal);
      this.#parts.log.working('metrics callers');
      if (verdict === 'allowed') return undefined;
      if (verdict === 'forbidden') return text(`${metricsPath}: RBAC does not allow this user to get it`, 403);
      return { ...text('a valid bearer token is required', 401), headers: { 'www-authenticate': 'Bearer' } };
    } catch (thrown) {
      const error = SeineError.from(thrown, 'authenticate a scrape');
      this.#parts.log.failing('metrics callers', 'callers of the metrics cannot be authenticated', { cause: error.message });
      return { ...text(`the caller cannot be authenticated: ${error.message}`, 503), headers: { 'retry-after': '5' } };
    }
  }
}
