/**
 * Bounds of one Service, for each of its families. Lists of one object multiply: ports by addresses, ports by endpoints. Parts over a bound
 * are not served, and the Service's rejection reasons name them; the rest is served. docs/feature-matrix.md has the table.
 */
export const serviceBounds = {
  /** Ports, each with its cluster address and node port; and pairs of a port and an external or load balancer's address. */
  portAddresses: 10_000,
  /** Pairs of a port and an endpoint. */
  portEndpoints: 100_000,
  /** Endpoints of one port. */
  endpoints: 10_000,
  /** Endpoints in own lists, of all ports together: an external address that is also an endpoint's has its own list. */
  ownListEndpoints: 100_000,
  /** The same for one port, all of whose lists are created at once. */
  ownListEndpointsOfPort: 10_000,
  /** Source ranges, which all ports share. */
  sourceRanges: 10_000,
} as const;

/** Returns the maximum number of external addresses of each of `ports` ports. */
export function addressesOfEachPort(ports: number): number {
  return Math.floor(serviceBounds.portAddresses / Math.max(1, ports));
}

/** Returns the maximum number of endpoints of each of `ports` ports. */
export function endpointsOfEachPort(ports: number): number {
  return Math.min(serviceBounds.endpoints, Math.max(1, Math.floor(serviceBounds.portEndpoints / Math.max(1, ports))));
}

/** Returns the maximum number of external addresses of each of `ports` ports that may also be one of its `endpoints` endpoints. */
export function ownAddressesOfEachPort(ports: number, endpoints: number): number {
  const most = Math.min(serviceBounds.ownListEndpointsOfPort, serviceBounds.ownListEndpoints / Math.max(1, ports));
  return Math.max(1, Math.floor(most / Math.max(1, endpoints)));
}
