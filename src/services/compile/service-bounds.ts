/**
 * Bounds of one Service, for each of its families. Lists of one object multiply: ports by addresses, ports by endpoints. What exceeds a
 * bound is not served and is named by the Service's objections; the rest is served. docs/limits.md has the table.
 */
export const serviceBounds = {
  /** Ports, each with its cluster address and node port; and pairs of a port and an external or load balancer's address. */
  portAddresses: 10_000,
  /** Pairs of a port and an endpoint. */
  portEndpoints: 100_000,
  /** Endpoints of one port. */
  endpoints: 10_000,
  /** Of all ports together, endpoints in lists for external addresses that are an endpoint's as well: each has a list of its own. */
  ownListEndpoints: 100_000,
  /** The same of one port, all of whose lists are made at once. */
  ownListEndpointsOfPort: 10_000,
  /** Source ranges: the ports share them. */
  sourceRanges: 10_000,
} as const;

/** How many external addresses each of `ports` ports is served at. */
export function addressesOfEachPort(ports: number): number {
  return Math.floor(serviceBounds.portAddresses / Math.max(1, ports));
}

/** How many endpoints each of `ports` ports has. */
export function endpointsOfEachPort(ports: number): number {
  return Math.min(serviceBounds.endpoints, Math.max(1, Math.floor(serviceBounds.portEndpoints / Math.max(1, ports))));
}

/** How many external addresses of each of `ports` ports may be those of one of its `endpoints` endpoints. */
export function ownAddressesOfEachPort(ports: number, endpoints: number): number {
  const most = Math.min(serviceBounds.ownListEndpointsOfPort, serviceBounds.ownListEndpoints / Math.max(1, ports));
  return Math.max(1, Math.floor(most / Math.max(1, endpoints)));
}
