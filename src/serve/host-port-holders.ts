import { type HostPort, placeOf } from '../connectivity/host-port.ts';
import type { Replica } from '../kube/replica.ts';
import type { Service } from '../kube/service.ts';
import type { Ip } from '../net/ip.ts';
import { transports } from '../proxy/intent.ts';
import type { ServiceHost } from './service-host.ts';

interface HostPortHoldersOptions {
  readonly services: Pick<Replica<Service>, 'entries'>;
  readonly host: Pick<ServiceHost, 'portHolder'>;
  /** The node's own addresses. */
  readonly own: () => readonly Ip[];
}

/**
 * Who has a port of the node already, in words for people: what of the cluster itself listens there, or a Service's node port, which comes first
 * in the packet filter whoever serves it.
 */
export function hostPortHolder({ services, host, own }: HostPortHoldersOptions): (hostPort: HostPort) => string | undefined {
  return (wanted) => {
    const { transport, hostPort } = wanted;
    const isAt = (ip: Ip): boolean => {
      const place = placeOf(wanted, ip.family);
      return place === 'everywhere' || place?.text === ip.text;
    };
    for (const ip of own().filter(isAt)) {
      const holder = host.portHolder(ip, transport, hostPort);
      if (holder !== undefined) return holder;
    }
    for (const [name, { ports }] of services.entries())
      if (ports.some(({ nodePort, protocol }) => nodePort === hostPort && transports[protocol] === transport))
        return `Service ${name}, whose node port it is`;
    return undefined;
  };
}
