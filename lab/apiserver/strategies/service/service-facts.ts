import type { ServiceSpec } from 'kubernetes-types/core/v1.d.ts';
import type { ApiObject } from '../../object/api-object.ts';

export type IpFamily = 'IPv4' | 'IPv6';
/** The spec before all fields are filled in. */
export type ServiceDraft = Partial<ServiceSpec> & { trafficDistribution?: string };

export function isExternalName({ type }: ServiceDraft): boolean {
  return type === 'ExternalName';
}

export function needsNodePorts({ type, allocateLoadBalancerNodePorts }: ServiceDraft): boolean {
  return type === 'NodePort' || (type === 'LoadBalancer' && allocateLoadBalancerNodePorts !== false);
}

export function isReachableFromOutside({ type, externalIPs = [] }: ServiceDraft): boolean {
  return type === 'NodePort' || type === 'LoadBalancer' || (type === 'ClusterIP' && externalIPs.length > 0);
}

export function needsHealthCheckPort(spec: ServiceDraft): boolean {
  return spec.type === 'LoadBalancer' && spec.externalTrafficPolicy === 'Local';
}

/** Keys of the addresses and ports allocated to a Service: `10.96.0.7`, `TCP/30080`. */
export function holdings({ spec }: ApiObject): { readonly addresses: readonly string[]; readonly ports: readonly string[] } {
  const { clusterIPs = [], ports = [], healthCheckNodePort } = spec as ServiceDraft;
  return {
    addresses: clusterIPs.filter((address) => address !== 'None'),
    ports: [
      ...ports.filter(({ nodePort }) => nodePort).map(({ nodePort, protocol }) => `${protocol}/${nodePort}`),
      ...(healthCheckNodePort ? [`TCP/${healthCheckNodePort}`] : []),
    ],
  };
}
