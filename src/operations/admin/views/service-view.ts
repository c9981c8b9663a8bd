import type { ServiceView } from '../../../api/object.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';
import { skipReason, unusedEndpoints } from '../../../services/compile/intent.ts';
import { endpointKey, reachableEndpoints, type ServiceAddress, shownAddresses } from '../../../services/compile/service-intent.ts';
import type { ServedPort } from '../../../services/controller/packed-service-port.ts';
import type { Services } from '../../../services/controller/services.ts';
import type { NodeSnapshot } from '../../diagnose/entries/node-reader.ts';
import type { Parts } from '../../diagnose/entries/targets.ts';
import { holdingsOf } from './holdings.ts';

export type ServiceSources = Pick<Services, 'ownersOf' | 'objections' | 'portsOf' | 'slicesOf' | 'proxying' | 'times'>;

export function serviceView(service: Service, services: ServiceSources, parts: Parts, snapshot: NodeSnapshot): ServiceView {
  const name = `${service.namespace}/${service.name}`;
  const { ports, endpoints } = services.ownersOf(name);
  const idle = skipReason(service, services.proxying.config);
  const holdings = holdingsOf(parts, snapshot, [...ports, ...endpoints]);
  const served = [...services.portsOf(name).values()];
  const last = services.times.of(name);
  return {
    ...holdings,
    name,
    state: idle === undefined ? holdings.state : 'idle',
    type: service.type,
    clusterIps: service.clusterIps,
    addresses: [...new Set(served.flatMap(({ intent }) => shownAddresses(intent).map(addressText)))],
    ports: service.ports.map(({ name: port, port: number, protocol }) => `${port === '' ? '' : `${port}:`}${number}/${protocol}`),
    endpoints: new Set(served.flatMap(({ intent }) => reachableEndpoints(intent).map((each) => `${intent.transport} ${endpointKey(each)}`)))
      .size,
    unused: unusedByReason(service, services, served),
    groups: served.flatMap(({ groups }) => [...groups.values()]),
    lastChange: last ? last.at.toISOString() : null,
    programmedMs: last?.tookMs === undefined ? null : Math.round(last.tookMs * 10) / 10,
    notServed: idle === undefined ? [...services.objections.of(name)] : [idle],
  };
}

/** Node ports are shown by number: their addresses depend on the node. */
function addressText({ kind, ip, port }: ServiceAddress): string {
  return kind === 'nodePort' ? `node port ${port}` : ip.text;
}

function unusedByReason(service: Service, services: ServiceSources, served: readonly ServedPort[]): ServiceView['unused'] {
  const slices = services.slicesOf(`${service.namespace}/${service.name}`);
  const counts = new Map<string, number>();
  for (const { intent } of served)
    for (const { why } of unusedEndpoints(service, slices, intent, services.proxying)) counts.set(why, (counts.get(why) ?? 0) + 1);
  return [...counts].map(([why, count]) => ({ why, count }));
}
