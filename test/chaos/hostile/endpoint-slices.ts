import type { ApiObject } from '../api.ts';
import { hostileNamespace } from './actors.ts';
import type { Drawing } from './drawing.ts';
import { isSpecial, unusedAddresses } from './places.ts';
import { awkwardNames, awkwardTexts, listOf, pairOfSizes } from './sizes.ts';

/** Maximum numbers in one slice that an API server accepts. */
const most = { endpoints: 1_000, addresses: 100, ports: 20_000 } as const;
const bytes = { endpoints: 90, ports: 45 } as const;

const oddTexts = [...awkwardTexts.filter((text) => text.length < 100 && text !== ''), 'a', 'b'];
/** Most have none of these. */
const labels: readonly Readonly<Record<string, string>>[] = [
  ...[{}, {}, {}, {}, {}],
  { 'endpointslice.kubernetes.io/managed-by': 'endpointslice-controller.k8s.io' },
  { 'endpointslice.kubernetes.io/managed-by': 'endpointslicemirroring-controller.k8s.io' },
  { 'service.kubernetes.io/headless': '' },
  { 'service.kubernetes.io/service-proxy-name': 'constructor' },
];

/** Endpoints of a Service of the tenant's, at addresses of others. */
export function drawEndpointSlice(name: string, { random, foreign, nodes, theirs }: Drawing): ApiObject {
  const family = random.pick(['ipv4', 'ipv4', 'ipv6'] as const);
  const ofFamily = foreign.map(({ address }) => address).filter((address) => address.includes(':') === (family === 'ipv6'));
  const usable = ofFamily.filter((address) => !isSpecial(address));
  const services = theirs['services'] ?? [];
  const ofNone = random.pick([...awkwardNames, 'guarded', 'open', 'kubernetes', '']);
  const service = services.length > 0 && random.chance(0.85) ? random.pick(services).metadata.name : ofNone;
  const [endpointCount, portCount] = pairOfSizes(random, [bytes.endpoints, bytes.ports], [most.endpoints, most.ports]);
  const unusedIps = unusedAddresses(endpointCount, family, random.below(1_000));
  const many = random.chance(0.1) && endpointCount < 20;
  return {
    metadata: { name, namespace: hostileNamespace, labels: { 'kubernetes.io/service-name': service, ...random.pick(labels) } },
    addressType: family === 'ipv4' ? 'IPv4' : 'IPv6',
    endpoints: listOf(endpointCount, (index) => ({
      addresses: many
        ? unusedAddresses(most.addresses, family, index)
        : [index < 20 && random.chance(0.7) ? random.pick(usable) : (unusedIps[index] ?? random.pick(usable))],
      conditions: { ready: random.chance(0.8), serving: random.chance(0.8), terminating: random.chance(0.2) },
      ...(random.chance(0.5) && { nodeName: random.pick([...nodes, ...awkwardNames]) }),
      ...(random.chance(0.2) && { zone: random.pick(oddTexts) }),
      ...(random.chance(0.2) && { hints: { forZones: listOf(1 + random.below(8), () => ({ name: random.pick(oddTexts) })) } }),
    })),
    ports: listOf(portCount, (index) => ({
      name: index === 0 ? random.pick(['', ...awkwardNames]) : `p${index}`,
      protocol: random.pick(['TCP', 'UDP', 'SCTP']),
      ...(random.chance(0.95) && { port: random.pick([80, 10_250, 22, 1 + random.below(65_535)]) }),
    })),
  };
}

/** Its endpoints are replaced, or it becomes another Service's. */
export function changedEndpointSlice(drawing: Drawing, { addressType }: ApiObject): object {
  const { endpoints, ports, metadata, addressType: drawn } = drawEndpointSlice('', drawing);
  return drawn === addressType ? { endpoints, ports, metadata: { labels: metadata.labels } } : { metadata: { labels: metadata.labels } };
}
