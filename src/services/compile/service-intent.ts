import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';

/** Destination of a connection to a Service after translation. */
export interface ServiceEndpoint {
  readonly ip: Ip;
  readonly port: number;
}

/**
 * Kind of a Service's address. `nodePort` means every address of the node on which node ports are opened: nftables translates them all to
 * one virtual address, the only one that the bridge knows.
 */
type AddressKind = 'cluster' | 'nodePort' | 'external' | 'loadBalancer';

/**
 * Address and port to which clients of a Service connect. An external address that is the node's own cannot be routed to the bridge: if the
 * node port does not cover it, it has a second address of its kind, a port of the node ports' virtual address.
 */
export interface ServiceAddress {
  readonly kind: AddressKind;
  readonly ip: Ip;
  readonly port: number;
}

/** Reports whether packets have this address only between the node's nftables rules and its bridge. */
export function isVirtual({ ip }: Pick<ServiceAddress, 'ip'>): boolean {
  return ip.text === nodePortAddress[ip.family].text;
}

/** Returns the addresses that clients use, and the node port. */
export function shownAddresses({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly ServiceAddress[] {
  return addresses.filter((address) => address.kind === 'nodePort' || !isVirtual(address));
}

type TrafficPolicy = 'Cluster' | 'Local';

/** One port of a Service in one family, as this node must serve it: the result of Service, EndpointSlices, node and configuration. */
export interface ServiceIntent {
  /** Unique within the Service: `PORTNAME/FAMILY`, or `PORT-PROTOCOL/FAMILY` for an unnamed port. */
  readonly name: string;
  readonly family: Family;
  readonly transport: Transport;
  /** Port of the Service. */
  readonly port: number;
  /** Addresses, at least one and without duplicates; the cluster address first, if there is one. */
  readonly addresses: readonly ServiceAddress[];
  /** Policy for clients of the cluster address. */
  readonly internalPolicy: TrafficPolicy;
  /** Policy for external clients at the other addresses; pods and the node itself get every endpoint there (the in-cluster short-cut). */
  readonly externalPolicy: TrafficPolicy;
  /** Time for which a client keeps its endpoint after its last new connection, in seconds (1 to 86,400). */
  readonly affinitySeconds?: number;
  /**
   * Place of the translation: the bucket that chose the endpoint, or a flow shared by all users of this endpoint. The choice for a client
   * with affinity is in registers, and fragments of datagrams do not pass a group: both need the flow.
   */
  readonly translation: 'bucket' | 'endpoint';
  /** Sources admitted to load balancers' addresses; empty means all. One list for all ports of a Service. */
  readonly sourceRanges: readonly Cidr[];
  /** Endpoints for policy `Cluster`, with topology applied. Sorted by address, without duplicates. */
  readonly cluster: readonly ServiceEndpoint[];
  /** Endpoints for policy `Local`: those on this node. Sorted, without duplicates. May include some that `cluster` does not (topology). */
  readonly local: readonly ServiceEndpoint[];
  /** True if there is an endpoint anywhere in the cluster: decides between refusing and dropping where `local` is empty. */
  readonly anyEndpoint: boolean;
  /** Parts of the port that are not served as specified, one sentence each. */
  readonly objections: readonly string[];
}

/** Origin of a connection: a pod of this node, the node itself, or an external host that reaches the Service through the node. */
export type ClientLocation = 'pod' | 'node' | 'external';

/** Treatment of a client at one of a Service's addresses. `scope` names the list of the intent. */
export type ServiceVerdict =
  | { readonly do: 'balance'; readonly scope: 'cluster' | 'local'; readonly endpoints: readonly ServiceEndpoint[] }
  /** Refuses at once: TCP reset, or port unreachable. */
  | { readonly do: 'refuse' }
  /** Drops: only endpoints on this node are allowed, and there are none. */
  | { readonly do: 'drop' };

/**
 * Returns the treatment of `client` at an address of `kind`, without source ranges. Source: kube-proxy's use of its `CategorizeEndpoints`.
 */
export function answerFor(intent: ServiceIntent, kind: AddressKind, client: ClientLocation): ServiceVerdict {
  const scope = scopeFor(intent, kind, client);
  const endpoints = intent[scope];
  if (endpoints.length > 0) return { do: 'balance', scope, endpoints };
  return scope === 'local' && intent.anyEndpoint ? { do: 'drop' } : { do: 'refuse' };
}

function scopeFor({ internalPolicy, externalPolicy }: ServiceIntent, kind: AddressKind, client: ClientLocation): 'cluster' | 'local' {
  if (kind === 'cluster') return internalPolicy === 'Local' ? 'local' : 'cluster';
  return externalPolicy === 'Local' && client === 'external' ? 'local' : 'cluster';
}

/** Returns every endpoint to which a client may be sent from this node. Sorted, without duplicates. */
export function reachableEndpoints({ cluster, local }: ServiceIntent): readonly ServiceEndpoint[] {
  if (local.length === 0) return cluster;
  const known = new Set(cluster.map(endpointKey));
  const more = local.filter((endpoint) => !known.has(endpointKey(endpoint)));
  return more.length === 0 ? cluster : [...cluster, ...more].sort(byAddress);
}

/** Returns those that have their own translation flow. */
export function translatedEndpoints(intent: ServiceIntent): readonly ServiceEndpoint[] {
  return intent.translation === 'endpoint' ? reachableEndpoints(intent) : [];
}

/** Reports whether the address is restricted to the Service's source ranges. */
export function hasSourceRanges({ sourceRanges }: Pick<ServiceIntent, 'sourceRanges'>, { kind }: Pick<ServiceAddress, 'kind'>): boolean {
  return kind === 'loadBalancer' && sourceRanges.length > 0;
}

/** Returns the list of ranges that the port checks; `undefined` if none of its addresses does. */
export function askedRanges(intent: Pick<ServiceIntent, 'sourceRanges' | 'addresses'>): readonly Cidr[] | undefined {
  return intent.addresses.some((address) => hasSourceRanges(intent, address)) ? intent.sourceRanges : undefined;
}

/** Returns `address port`, unique for an endpoint of one transport. */
export function endpointKey({ ip, port }: ServiceEndpoint): string {
  return `${ip.text} ${port}`;
}

export function byAddress(a: ServiceEndpoint, b: ServiceEndpoint): number {
  if (a.ip.value === b.ip.value) return a.port - b.port;
  return a.ip.value < b.ip.value ? -1 : 1;
}
