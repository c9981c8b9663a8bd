import { ctMark, sourceToCtMark, unsettledToCtMark } from '../../dataplane/pipeline/fields.ts';
import type { CtStep } from '../../dataplane/pipeline/flow.ts';
import { zones } from '../../dataplane/pipeline/well-known.ts';
import type { ServiceAddress, ServiceEndpoint } from './service-intent.ts';

/** Translates to an endpoint, and commits the connection before it is admitted. */
export function translateTo({ ip, port }: ServiceEndpoint): CtStep {
  return {
    do: 'ct',
    zone: zones[ip.family].main,
    commit: true,
    next: 'egressEntry',
    nat: { kind: 'dst', ip, port },
    exec: [
      { do: 'mark', mark: ctMark.service('yes') },
      { do: 'moveToMark', ...sourceToCtMark },
      { do: 'moveToMark', ...unsettledToCtMark },
    ],
  };
}

/**
 * Reports whether a Service's address and port are this endpoint's. Then no translation is needed, and none is allowed: Open vSwitch 3.1.0
 * on the userspace data path aborts when a connection that was translated to its own tuple appears again (`conn_update_state()`).
 */
export function isItself({ ip, port }: ServiceEndpoint, address: ServiceAddress): boolean {
  return port === address.port && ip.text === address.ip.text && ip.family === address.ip.family;
}
