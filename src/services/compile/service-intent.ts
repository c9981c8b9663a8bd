import type { Cidr, Family, Ip } from '../../base/net/ip.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';

/** Where a connection to a Service may end. */
export interface ServiceEndpoint {
  readonly ip: Ip;
  readonly port: number;
}

/**
 * Which of a Service's addresses. `nodePort` stands for every address of the node that node ports are opened on: the node's packet
 * filter translates them all to one virtual address, which is the one that the bridge knows.
 */
type AddressKind = 'cluster' | 'nodePort' | 'external' | 'loadBalancer';

/**
 * An address and port that connections to a Service are opened to. An external address that is the node's own cannot be routed to the bridge:
 * where the node port does not stand for it, it has a second one of its kind, a port of the node ports' virtual address.
 */
export interface ServiceAddress {
  readonly kind: AddressKind;
  readonly ip: Ip;
  readonly port: number;
}

/** Whether packets have this address only between the node's packet filter and its bridge. */
export function isVirtual({ ip }: Pick<ServiceAddress, 'ip'>): boolean {
  return ip.text === nodePortAddress[ip.family].text;
}

/** Addresses that clients use, and the node port. */
export function shownAddresses({ addresses }: Pick<ServiceIntent, 'addresses'>): readonly ServiceAddress[] {
  return addresses.filter((address) => address.kind === 'nodePort' || !isVirtual(address));
}

type TrafficPolicy = 'Cluster' | 'Local';

/** One port of a Service in one family, as this node must serve it: what Service, EndpointSlices, node and configuration come to. */
export interface ServiceIntent {
  /** Unique within the Service: `PORTNAME/FAMILY`, or `PORT-PROTOCOL/FAMILY` for an unnamed port. */
  readonly name: string;
  readonly family: Family;
  readonly transport: Transport;
  /** The Service's port. */
  readonly port: number;
  /** At least one; the cluster address first, if there is one. Each once. */
  readonly addresses: readonly ServiceAddress[];
  /** For clients of the cluster address. */
  readonly internalPolicy: TrafficPolicy;
  /** For the world that asks one of the others; pods and the node itself get every endpoint there (the in-cluster short-cut). */
  readonly externalPolicy: TrafficPolicy;
  /** How long a client stays with its endpoint after its last new connection, in seconds (1 to 86,400). */
  readonly affinitySeconds?: number;
  /**
   * What translates to an endpoint: the bucket that chose it, or a flow that all of this endpoint's users share. What a client is
   * remembered for is in registers, and pieces of datagrams pass no group: for these it takes the flow.
   */
  readonly translation: 'bucket' | 'endpoint';
  /** Who may use load balancers' addresses; empty means everyone. One list for all ports of a Service. */
  readonly sourceRanges: readonly Cidr[];
  /** Endpoints for policy `Cluster`, topology considered. Sorted by address, each once. */
  readonly cluster: readonly ServiceEndpoint[];
  /** Endpoints for policy `Local`: those on this node. Sorted, each once. May hold some that `cluster` does not (topology). */
  readonly local: readonly ServiceEndpoint[];
  /** Somewhere in the cluster there is an endpoint: decides between refusing and dropping where `local` is empty. */
  readonly anyEndpoint: boolean;
  /** What of the port is not served as the Service says, a sentence each. */
  readonly objections: readonly string[];
}

/** Who opens a connection: a pod of this node, the node itself, or a host outside that reaches the Service through the node. */
export type ClientLocation = 'pod' | 'node' | 'world';

/** What a client of one of a Service's addresses gets. `scope` names the list of the intent. */
export type ServiceVerdict =
  | { readonly do: 'balance'; readonly scope: 'cluster' | 'local'; readonly endpoints: readonly ServiceEndpoint[] }
  /** Refused at once: TCP reset, or port unreachable. */
  | { readonly do: 'refuse' }
  /** Only endpoints on this node will do, and there are none. */
  | { readonly do: 'drop' };

/** What `client` gets at an address of `kind`, source ranges left aside. Source: kube-proxy's use of its `CategorizeEndpoints`. */
export function answerFor(intent: ServiceIntent, kind: AddressKind, client: ClientLocation): ServiceVerdict {
  const scope = scopeFor(intent, kind, client);
  const endpoints = intent[scope];
  if (endpoints.length > 0) return { do: 'balance', scope, endpoints };
  return scope === 'local' && intent.anyEndpoint ? { do: 'drop' } : { do: 'refuse' };
}

function scopeFor({ internalPolicy, externalPolicy }: ServiceIntent, kind: AddressKind, client: ClientLocation): 'cluster' | 'local' {
  if (kind === 'cluster') return internalPolicy === 'Local' ? 'local' : 'cluster';
  return externalPolicy === 'Local' && client === 'world' ? 'local' : 'cluster';
}

/** Every endpoint that a client may be sent to from this node. Sorted, each once. */
export function reachableEndpoints({ cluster, local }: ServiceIntent): readonly ServiceEndpoint[] {
  if (local.length === 0) return cluster;
  const known = new Set(cluster.map(endpointKey));
  const more = local.filter((endpoint) => !known.has(endpointKey(endpoint)));
  return more.length === 0 ? cluster : [...cluster, ...more].sort(byAddress);
}

/** Those of them that have a translation of their own. */
export function translatedEndpoints(intent: ServiceIntent): readonly ServiceEndpoint[] {
  return intent.translation === 'endpoint' ? reachableEndpoints(intent) : [];
}

/** Whether the address is for clients in the Service's source ranges alone. */
export function hasSourceRanges({ sourceRanges }: Pick<ServiceIntent, 'sourceRanges'>, { kind }: Pick<ServiceAddress, 'kind'>): boolean {
  return kind === 'loadBalancer' && sourceRanges.length > 0;
}

/** The list of ranges that the port asks; `undefined` if none of its addresses does. */
export function askedRanges(intent: Pick<ServiceIntent, 'sourceRanges' | 'addresses'>): readonly Cidr[] | undefined {
  return intent.addresses.some((address) => hasSourceRanges(intent, address)) ? intent.sourceRanges : undefined;
}

/** `address port`, unique for an endpoint of one transport. */
export function endpointKey({ ip, port }: ServiceEndpoint): string {
  return `${ip.text} ${port}`;
}

export function byAddress(a: ServiceEndpoint, b: ServiceEndpoint): number {
  if (a.ip.value === b.ip.value) return a.port - b.port;
  return a.ip.value < b.ip.value ? -1 : 1;
}
