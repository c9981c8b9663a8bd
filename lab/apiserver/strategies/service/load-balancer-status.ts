import type { ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import { isIp } from '../../../../src/base/net/ip.ts';
import type { FieldErrors } from '../../errors/field-errors.ts';
import type { ApiObject } from '../../object/api-object.ts';
import { arrayAt } from '../../object/json.ts';

/** One address of a load balancer. Kubernetes API, LoadBalancerIngress. */
export interface LoadBalancerIngress {
  readonly ip?: string;
  readonly hostname?: string;
  ipMode?: string;
}

const ipModes = ['Proxy', 'VIP'];
const path = 'status.loadBalancer.ingress';

/** Checks the status that a load balancer's controller writes to a Service. */
export function checkLoadBalancerStatus({ spec, status }: ApiObject, errors: FieldErrors): void {
  const ingress = arrayAt(status, 'loadBalancer', 'ingress') as readonly LoadBalancerIngress[];
  if (ingress.length > 0 && (spec as ServiceSpec).type !== 'LoadBalancer') {
    errors.forbidden(path, "may only be used when `spec.type` is 'LoadBalancer'");
    return;
  }
  ingress.forEach(({ ip, ipMode }, index) => {
    const here = `${path}[${index}]`;
    if (ip && !isIp(ip)) errors.invalid(`${here}.ip`, ip, 'must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)');
    if (!ip && ipMode !== undefined) errors.forbidden(`${here}.ipMode`, 'may not be specified when `ip` is not set');
    else if (ip && ipMode === undefined) errors.required(`${here}.ipMode`, 'must be specified when `ip` is set');
    else if (ip && !ipModes.includes(ipMode ?? '')) errors.notSupported(`${here}.ipMode`, ipMode, ipModes);
  });
}
