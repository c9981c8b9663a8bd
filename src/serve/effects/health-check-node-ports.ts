import type { Log } from '../../log/log.ts';
import type { ServiceResult, ServiceSubscriber } from '../service-changes.ts';
import { HealthChecks } from './health-checks.ts';
import { localEndpoints } from './local-endpoints.ts';

interface HealthCheckNodePortsOptions {
  readonly nodeName: string;
  /** Asked at every comparison. */
  readonly isEnabled: () => boolean;
  readonly log: Log;
}

/** Opens the `healthCheckNodePort` of each Service that has one and is served here, and counts the endpoints its answers tell. */
export class HealthCheckNodePorts implements ServiceSubscriber {
  readonly #options: HealthCheckNodePortsOptions;
  readonly #checks: HealthChecks;

  constructor(options: HealthCheckNodePortsOptions) {
    this.#options = options;
    this.#checks = new HealthChecks(options.log);
  }

  compared({ key, service, slices, ports }: ServiceResult): void {
    const { nodeName, isEnabled } = this.#options;
    const port = service?.type === 'LoadBalancer' && service.externalTrafficPolicy === 'Local' ? service.healthCheckNodePort : undefined;
    if (service === undefined || port === undefined || ports.size === 0 || !isEnabled()) {
      this.#checks.set(key, undefined);
      return;
    }
    const { namespace, name } = service;
    this.#checks.set(key, { namespace, name, port, localEndpoints: localEndpoints(service, slices, nodeName) });
  }

  close(): void {
    this.#checks.close();
  }
}
