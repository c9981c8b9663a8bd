import type { ServiceView } from '../../agent-api/object.ts';
import type { Service } from '../../kube/service.ts';
import type { Services } from '../services.ts';
import { holdingsOf, type NodeSnapshot } from './holdings.ts';
import type { Parts } from './parts.ts';

export function serviceView(
  service: Service,
  services: Pick<Services, 'ownersOf' | 'objections'>,
  parts: Parts,
  snapshot: NodeSnapshot,
): ServiceView {
  const name = `${service.namespace}/${service.name}`;
  const { ports, endpoints } = services.ownersOf(name);
  const idle = whyNotServed(service);
  const holdings = holdingsOf(parts, snapshot, [...ports, ...endpoints]);
  return {
    ...holdings,
    name,
    state: idle === undefined ? holdings.state : 'idle',
    type: service.type,
    clusterIps: service.clusterIps,
    ports: service.ports.map(({ name: port, port: number, protocol }) => `${port === '' ? '' : `${port}:`}${number}/${protocol}`),
    endpoints: endpoints.size,
    notServed: idle === undefined ? [...services.objections.of(name), ...limits(service)] : [idle],
  };
}

/** Nothing on the bridge is meant to be for such a Service. */
function whyNotServed(service: Service): string | undefined {
  if (service.type === 'ExternalName') return 'ExternalName is for DNS';
  if (service.clusterIps.length === 0 || service.headlessLabel) return 'headless: DNS gives the endpoints';
  if (service.proxyName !== undefined) return `served by ${JSON.stringify(service.proxyName)}`;
  return undefined;
}

/** What is promised by the Service's fields and not done by this version. */
function limits(service: Service): string[] {
  const nodePorts = service.ports.some(({ nodePort }) => nodePort !== undefined && nodePort !== 0);
  return [
    ...(nodePorts ? ['node ports'] : []),
    ...(service.type === 'LoadBalancer' ? ['load balancer addresses'] : []),
    ...(service.externalIps.length > 0 ? ['external addresses'] : []),
    ...(service.affinitySeconds === undefined ? [] : ['session affinity']),
    ...(service.internalTrafficPolicy === 'Local' ? ['internalTrafficPolicy Local (treated as Cluster)'] : []),
    ...(service.ports.some(({ protocol }) => protocol === 'SCTP') ? ['SCTP'] : []),
  ];
}
