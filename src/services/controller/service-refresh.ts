import type { Log } from '../../base/log/log.ts';
import type { Owner } from '../../dataplane/pipeline/cookie.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service } from '../../kubernetes/resources/service.ts';
import type { Proxying } from '../compile/intent.ts';
import { addressesOfEachPort, endpointsOfEachPort, serviceBounds } from '../compile/service-bounds.ts';
import { portKey, type ServiceClaims, spotsOf } from '../compile/service-claims.ts';
import type { ServiceAddress, ServiceIntent } from '../compile/service-intent.ts';
import type { ProgrammingTimes } from './effects/programming-times.ts';
import type { ServedPort } from './packed-service-port.ts';
import type { AddressHolders, ServedState, ServeSources } from './ports.ts';
import type { ServiceHost } from './service-host.ts';

/** Current properties of the node for Services; call `checkAgain` after they have changed. */
interface ServingNode {
  readonly proxying: Proxying;
  readonly host: Pick<ServiceHost, 'routes' | 'elements' | 'isOwn' | 'isNodeAddress' | 'portHolder'>;
}

export interface ServicesOptions {
  readonly sources: Pick<ServeSources, 'services' | 'slices' | 'turns'>;
  readonly nodeState: ServedState;
  readonly node: ServingNode;
  readonly holders: Pick<AddressHolders, 'holderOf'>;
  readonly times: Pick<ProgrammingTimes, 'arrived' | 'nowMs' | 'of'>;
  readonly log: Log;
  readonly signal: AbortSignal;
}

/** Comparison of a Service: what was served of it, what is served from now on, and what is not. */
export interface Refresh {
  readonly before: ReadonlyMap<Owner, ServedPort>;
  readonly after: Map<Owner, ServedPort>;
  readonly intents: Map<Owner, ServiceIntent>;
  /** Owners whose bridge entries changed. */
  readonly changed: Set<Owner>;
  /** Owners already dropped. */
  readonly failed: Set<Owner>;
  readonly objections: Set<string>;
}

export function newRefresh(before: Refresh['before']): Refresh {
  return { before, after: new Map(), intents: new Map(), changed: new Set(), failed: new Set(), objections: new Set() };
}

/** Maximum number of rejection reasons kept for one Service: it may have one for each of thousands of ports. */
const OBJECTIONS_MAX = 20;

export function addObjection(objections: Set<string>, objection: string): void {
  if (objections.size < OBJECTIONS_MAX) objections.add(objection);
}

interface AddressClaimants {
  readonly node: { readonly host: Pick<ServiceHost, 'isNodeAddress' | 'portHolder'> };
  readonly holders: Pick<AddressHolders, 'holderOf'>;
  readonly sources: { readonly services: { get(key: string): Service | undefined } };
  readonly claims: Pick<ServiceClaims, 'holderBefore'>;
}

/**
 * Returns why an address of Service `key` must not be served; undefined if it may. An external address may be a node's: load balancers
 * assign those. A cluster address must belong to the Service alone, and a port of any address to no other Service.
 */
export function takenAddress(
  key: string,
  transport: Transport,
  { kind, ip, port }: ServiceAddress,
  { node, holders, sources, claims }: AddressClaimants,
): string | undefined {
  const isNodes = kind !== 'cluster' && node.host.isNodeAddress(ip);
  const holder =
    (kind === 'nodePort' || isNodes ? undefined : holders.holderOf(ip, kind === 'cluster' ? sources.services.get(key) : undefined)) ??
    (isNodes ? node.host.portHolder(ip, transport, port) : undefined) ??
    claims.holderBefore(
      key,
      spotsOf(ip, portKey(transport, port), () => isNodes),
    );
  if (holder === undefined) return undefined;
  const address = kind === 'nodePort' ? `node port ${port}` : `${ip.text}${isNodes ? `, port ${port},` : ''}`;
  return `${address} belongs to ${holder}`;
}

/** Maximum size of a Service that is compared in a moment. */
const FEW = 100;
/** Approximate length of an endpoint in a packed slice. */
const ENDPOINT_LENGTH = 24;

/**
 * Approximate number of things that are compared for a Service: its ports with their addresses and endpoints, and its source ranges.
 *
 * @param served number of its ports served now
 */
export function serviceSize(service: Service | undefined, slices: readonly EndpointSlice[], served: number): number {
  if (service === undefined) return served;
  const ports = Math.min(serviceBounds.portAddresses, service.ports.length);
  const addresses = Math.min(addressesOfEachPort(ports), service.externalIps.length + service.loadBalancerIngress.length);
  const listed = slices.reduce((sum, { endpoints }) => sum + Math.ceil(endpoints.length / ENDPOINT_LENGTH), 0);
  const endpoints = Math.min(endpointsOfEachPort(ports), listed);
  const ranges = Math.min(serviceBounds.sourceRanges, service.loadBalancerSourceRanges.length);
  return Math.max(served, ports * (1 + addresses + endpoints) + ranges);
}

/** Maximum size of a Service that overtakes one of `size` while that is compared: a quarter, so that few are in progress at once. */
export function mayPassWithin(size: number): number {
  return size / 4;
}

/** Maximum size of a Service that overtakes those that wait after one of `size`, in order of their sizes. */
export function mayPassAfter(size: number): number {
  return Math.max(FEW, size);
}

/** Orders by size; those of about one size keep their order. */
export function smallestFirst(keys: readonly string[], sizeOf: (key: string) => number): readonly string[] {
  const magnitudes = new Map(keys.map((key) => [key, Math.ceil(Math.log10(Math.max(1, sizeOf(key) / FEW)))]));
  return keys.toSorted((a, b) => (magnitudes.get(a) ?? 0) - (magnitudes.get(b) ?? 0));
}
