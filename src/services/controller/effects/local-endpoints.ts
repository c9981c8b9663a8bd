import { unpackEndpoints } from '../../../base/net/packed-endpoints.ts';
import type { EndpointSlice } from '../../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../../kubernetes/resources/service.ts';

/**
 * Returns the number of a Service's endpoints that are ready on a node, each address once, in the Service's first family. Those that only
 * serve while they terminate do not count: a load balancer has to send new connections elsewhere.
 */
export function localEndpoints({ ipFamilies }: Pick<Service, 'ipFamilies'>, slices: readonly EndpointSlice[], node: string): number {
  const addresses = slices
    .filter(({ family }) => family === (ipFamilies[0] ?? 'ipv4'))
    .flatMap(({ endpoints }) => unpackEndpoints(endpoints).filter(({ ready, nodeName }) => ready && nodeName === node))
    .flatMap(({ addresses: [first] }) => first ?? []);
  return new Set(addresses).size;
}
