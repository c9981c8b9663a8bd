import type { ApiObject } from '../api.ts';
import { hostileNamespace } from './actors.ts';
import type { Drawing } from './drawing.ts';
import { isSpecial, unusedAddresses } from './places.ts';
import { awkwardNames, awkwardValues, listOf, pairOfSizes } from './sizes.ts';

/** What an API server takes of one slice. */
const most = { endpoints: 1_000, addresses: 100, ports: 20_000 } as const;
const octets = { endpoints: 90, ports: 45 } as const;

/** Endpoints of a Service of the tenant's, at addresses of others. */
export function drawEndpointSlice(name: string, { random, foreign, nodes, theirs }: Drawing): ApiObject {
  const family = random.pick(['ipv4', 'ipv4', 'ipv6'] as const);
  const ofFamily = foreign.map(({ address }) => address).filter((address) => address.includes(':') === (family === 'ipv6'));
  const usable = ofFamily.filter((address) => !isSpecial(address));
  const services = theirs['services'] ?? [];
  const service = services.length > 0 && random.chance(0.9) ? random.pick(services).metadata.name : random.pick(awkwardNames);
  const [endpointCount, portCount] = pairOfSizes(random, [octets.endpoints, octets.ports], [most.endpoints, most.ports]);
  const nobody = unusedAddresses(endpointCount, family, random.below(1_000));
  const many = random.chance(0.1) && endpointCount < 20;
  return {
    metadata: { name, namespace: hostileNamespace, labels: { 'kubernetes.io/service-name': service } },
    addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
    endpoints: listOf(endpointCount, (index) => ({
      addresses: many
        ? unusedAddresses(most.addresses, family, index)
        : [index < 20 && random.chance(0.7) ? random.pick(usable) : (nobody[index] ?? random.pick(usable))],
      conditions: { ready: random.chance(0.8), serving: random.chance(0.8), terminating: random.chance(0.2) },
      ...(random.chance(0.5) && { nodeName: random.pick([...nodes, ...awkwardNames]) }),
      ...(random.chance(0.2) && { zone: random.pick(awkwardValues) }),
      ...(random.chance(0.2) && { hints: { forZones: listOf(1 + random.below(8), () => ({ name: random.pick(awkwardNames) })) } }),
    })),
    ports: listOf(portCount, (index) => ({
      name: index === 0 ? random.pick(['', ...awkwardNames]) : `p${index}`,
      protocol: random.pick(['TCP', 'UDP', 'SCTP']),
      ...(random.chance(0.95) && { port: random.pick([80, 10_250, 22, 1 + random.below(65_535)]) }),
    })),
  };
}
