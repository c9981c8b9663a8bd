import { ipFromValue, parseIp } from '../../base/net/ip.ts';
import { keyOf } from '../../policy/reach/objects.ts';
import type { ServedObject } from '../../policy/verify/forwarding-reference/forwarded-objects.ts';
import type { SimulatedObjects } from './cluster-objects.ts';
import { firstSlices } from './controlled-slices.ts';

/** Fields by which the API server decides whether a Service gets addresses. */
interface AddressedSpec {
  readonly type?: string | null;
  readonly clusterIP?: string | null;
  readonly clusterIPs?: readonly string[] | null;
  readonly ipFamilies?: readonly string[] | null;
}

/** First addresses for Services of manifests: in the networks for tests of network equipment (RFC 2544, RFC 5180), after those of pods. */
const firstAddresses = { IPv4: parseIp('198.19.128.1'), IPv6: parseIp('2001:2:0:1::1') } as const;

/** Adds what the API server and controllers add to manifests: addresses of Services in the order of their names, and EndpointSlices. */
export function completedCluster(objects: SimulatedObjects): SimulatedObjects {
  const numbers = new Map(
    objects.services
      .map(keyOf)
      .sort()
      .map((key, at) => [key, at]),
  );
  const services = objects.services.map((each) => withClusterAddress(each, numbers.get(keyOf(each)) ?? 0));
  const completed = { ...objects, services };
  return { ...completed, slices: [...objects.slices, ...firstSlices(completed)] };
}

/** @param number number of the Service, for its address */
export function withClusterAddress(service: ServedObject, number: number): ServedObject {
  const { type, clusterIP, clusterIPs, ipFamilies } = service.spec as AddressedSpec;
  if ((clusterIPs ?? []).length > 0 || type === 'ExternalName') return service;
  const asked = ipFamilies && ipFamilies.length > 0 ? ipFamilies : ['IPv4', 'IPv6'];
  const families = (['IPv4', 'IPv6'] as const).filter((family) => asked.includes(family));
  const addresses = families.map(
    (family) => ipFromValue(firstAddresses[family].family, firstAddresses[family].value + BigInt(number)).text,
  );
  return { ...service, spec: { ...service.spec, clusterIPs: clusterIP ? [clusterIP] : addresses } };
}
