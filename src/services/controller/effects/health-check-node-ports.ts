import type { Log } from '../../../base/log/log.ts';
import type { UnservedReasons } from '../../../base/log/unserved-reasons.ts';
import type { EventPoster } from '../../../kubernetes/client/events.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';
import type { ServiceResult, ServiceSubscriber } from '../service-changes.ts';
import { ServiceHealthChecks } from './health-checks.ts';
import { localEndpoints } from './local-endpoints.ts';

/** Maximum length of an event's note in Kubernetes. */
const EVENT_TEXT_MAX = 1_000;

interface HealthCheckNodePortsOptions {
  readonly nodeName: string;
  /** Evaluated at every comparison. */
  readonly isEnabled: () => boolean;
  readonly events: Pick<EventPoster, 'post'>;
  /** Receives the Services whose port another process of the node has. */
  readonly taken: Pick<UnservedReasons, 'set' | 'of'>;
  readonly log: Log;
  /** Delay between two attempts to open a port (ms). */
  readonly retryMs?: number;
}

/** Opens the `healthCheckNodePort` of each Service that has one and is served here, and counts the endpoints for its answers. */
export class HealthCheckNodePorts implements ServiceSubscriber {
  readonly #options: HealthCheckNodePortsOptions;
  readonly #checks: ServiceHealthChecks;
  readonly #services = new Map<string, Service>();

  constructor(options: HealthCheckNodePortsOptions) {
    this.#options = options;
    const { log, retryMs } = options;
    const onListen = (key: string, port: number, cause: string | undefined): void => this.#noteListening(key, port, cause);
    this.#checks = new ServiceHealthChecks({ log, onListen, ...(retryMs === undefined ? {} : { retryMs }) });
  }

  compared({ key, service, slices, ports }: ServiceResult): void {
    const { nodeName, isEnabled } = this.#options;
    const port = service?.type === 'LoadBalancer' && service.externalTrafficPolicy === 'Local' ? service.healthCheckNodePort : undefined;
    if (service === undefined || port === undefined || ports.size === 0 || !isEnabled()) {
      this.#services.delete(key);
      this.#checks.set(key, undefined);
      return;
    }
    this.#services.set(key, service);
    const { namespace, name } = service;
    this.#checks.set(key, { namespace, name, port, localEndpoints: localEndpoints(service, slices, nodeName) });
  }

  #noteListening(key: string, port: number, cause: string | undefined): void {
    const { nodeName, events, taken } = this.#options;
    if (cause === undefined) {
      taken.set(key, []);
      return;
    }
    const reason = `healthCheckNodePort ${port} cannot be opened (${cause}): load balancers do not use this node; the agent tries again, stop the other process`;
    const isNew = taken.of(key).length === 0;
    taken.set(key, [reason]);
    const service = this.#services.get(key);
    if (!isNew || service === undefined) return;
    const { uid, namespace, name } = service;
    events.post({
      type: 'Warning',
      reason: 'HealthCheckNodePortTaken',
      message: `node ${nodeName}: ${reason}`.slice(0, EVENT_TEXT_MAX),
      about: { apiVersion: 'v1', kind: 'Service', namespace, name, uid },
    });
  }

  close(): void {
    this.#checks.close();
  }
}
