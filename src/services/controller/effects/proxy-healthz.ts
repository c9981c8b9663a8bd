import type { ServerResponse } from 'node:http';
import type { Log } from '../../../base/log/log.ts';
import type { Replica } from '../../../kubernetes/client/replica/replica.ts';
import type { Node } from '../../../kubernetes/resources/node.ts';
import type { ProxyMode } from '../proxy-mode.ts';
import { CheckServer } from './check-server.ts';

interface ProxyHealthzOptions {
  readonly nodeName: string;
  /** `ADDRESS:PORT`; empty: disabled. */
  readonly address: string;
  readonly mode: Pick<ProxyMode, 'proxyAll' | 'kubeProxyFound'>;
  readonly nodes: Pick<Replica<Node>, 'get' | 'synced'>;
  /** Returns the reason why the node does not forward now; undefined if it does. */
  readonly obstacle: () => string | undefined;
  readonly log: Log;
}

/**
 * Health check for clouds' load balancers, which query each node for Services with `externalTrafficPolicy: Cluster`, at the address and
 * with the meaning of kube-proxy's (pkg/proxy/healthcheck/proxy_health.go). `/healthz` is 503 while the node does not forward, or is to be
 * deleted, so that new connections go elsewhere; `/livez` ignores the deletion.
 *
 * Only where this agent serves all Services and no kube-proxy runs: a kube-proxy has the address, or needs it back.
 */
export class ProxyHealthz {
  readonly #options: ProxyHealthzOptions;
  readonly #place: { readonly host: string; readonly port: number } | undefined;
  #server: CheckServer | undefined;
  #lastWell = new Date();

  constructor(options: ProxyHealthzOptions) {
    this.#options = options;
    this.#place = placeOf(options.address);
  }

  /** Opens or closes the port, depending on what {@link ProxyMode} has found. */
  look(): void {
    const { mode, log } = this.#options;
    if (this.#place === undefined) return;
    if (!mode.proxyAll || mode.kubeProxyFound) {
      this.close();
      return;
    }
    const { host, port } = this.#place;
    const everywhere = host === '::' ? {} : { host };
    const answer = (path: string, response: ServerResponse): void => this.#answer(path, response);
    this.#server ??= new CheckServer({ ...everywhere, port, what: 'the address of proxy.healthzBindAddress', answer, log });
  }

  close(): void {
    this.#server?.close();
    this.#server = undefined;
  }

  /** Reports whether the process that listens on this port is this one. */
  isOwn(port: number): boolean {
    return this.#place?.port === port && this.#server?.listens === true;
  }

  /** Summary for `seinectl status`. */
  get sentence(): string {
    const { mode, address } = this.#options;
    if (this.#place === undefined) return 'off: proxy.healthzBindAddress is empty';
    if (mode.kubeProxyFound) return 'off: kube-proxy answers load balancers';
    if (!mode.proxyAll) return 'off: proxy.proxyAll is false';
    if (this.#server?.listens !== true) return `not yet: another process has ${address}`;
    const why = this.#options.obstacle() ?? this.#beingRemoved();
    return `${why === undefined ? '200' : '503'} on ${address}${why === undefined ? '' : `: ${why}`}`;
  }

  /** Returns the reason why load balancers should send no new connections here although the node works. */
  #beingRemoved(): string | undefined {
    const { nodes, nodeName } = this.#options;
    const node = nodes.get(nodeName);
    if (node === undefined) return nodes.synced ? 'the API server has no Node of this name' : undefined;
    if (node.deleting) return 'the Node is being deleted';
    return node.toBeDeleted ? 'the cluster’s autoscaler is about to delete the Node' : undefined;
  }

  #answer(path: string, response: ServerResponse): void {
    const isHealthz = path === '/healthz';
    if (!isHealthz && path !== '/livez') {
      response.writeHead(404, { Connection: 'close' }).end();
      return;
    }
    const well = this.#options.obstacle() === undefined;
    const now = new Date();
    if (well) this.#lastWell = now;
    const nodeEligible = this.#beingRemoved() === undefined;
    const times = { lastUpdated: this.#lastWell.toISOString(), currentTime: now.toISOString() };
    const body = Buffer.from(JSON.stringify(isHealthz ? { ...times, nodeEligible } : times));
    response.writeHead(well && (nodeEligible || !isHealthz) ? 200 : 503, {
      'Content-Type': 'application/json',
      'Content-Length': body.length,
      'X-Content-Type-Options': 'nosniff',
      Connection: 'close',
    });
    response.end(body);
  }
}

/** @param text `ADDRESS:PORT`, `[ADDRESS]:PORT`, or empty; the configuration was validated */
function placeOf(text: string): { readonly host: string; readonly port: number } | undefined {
  if (text === '') return undefined;
  const colon = text.lastIndexOf(':');
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port: Number(text.slice(colon + 1)) };
}
