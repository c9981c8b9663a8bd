import { isIp, parseIp } from '../../../base/net/ip.ts';
import type { EndpointObject, ServedObject, ServedPortObject, SliceObject } from './forwarded-objects.ts';

/** An endpoint of a Service. */
export interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/** Client of a Service: what decides which endpoints it may get. */
interface EndpointClient {
  readonly family: 'ipv4' | 'ipv6';
  /** Node that chooses the endpoint. */
  readonly node: string;
  readonly zone?: string;
  /** True if a traffic policy allows only endpoints on the node. */
  readonly isLocal: boolean;
}

/** Endpoints that a client may get. */
export interface ChosenEndpoints {
  readonly endpoints: readonly Endpoint[];
  /** Number of those that are used by any client: the ready ones, else those that still serve while they terminate. */
  readonly used: number;
  /** Why the client gets those alone. */
  readonly reasons: readonly ('hints' | 'terminating')[];
}

/**
 * Returns the endpoints that a client may get: the ready ones, or those that still serve while they terminate. Of the ready ones, where the
 * traffic policy does not ask for those of the node, those near the client, if each has a hint and one of them is for this node or zone.
 * An endpoint that moves between slices is in two of them for a while: it is ready if one of them has it so.
 * Source: KEP-1669, KEP-2433, KEP-3015, and kube-proxy's `CategorizeEndpoints`.
 */
export function endpointsOf(
  slices: readonly SliceObject[],
  service: ServedObject,
  port: ServedPortObject,
  client: EndpointClient,
): ChosenEndpoints {
  const all = onceEach(placedEndpoints(slices, service, port, client.family), service);
  const usable = (placed: readonly PlacedEndpoint[]): readonly PlacedEndpoint[] => {
    const ready = placed.filter((each) => rankOf(each, service) === 2);
    return ready.length > 0 ? ready : placed.filter((each) => rankOf(each, service) === 1);
  };
  const used = usable(all).length;
  const allowed = usable(client.isLocal ? all.filter(({ endpoint }) => endpoint.nodeName === client.node) : all);
  if (allowed.some((each) => rankOf(each, service) === 1)) return { endpoints: allowed.map(plain), used, reasons: ['terminating'] };
  const near = client.isLocal ? allowed : nearOf(allowed, client);
  return { endpoints: near.map(plain), used, reasons: near === allowed ? [] : ['hints'] };
}

interface PlacedEndpoint extends Endpoint {
  readonly endpoint: EndpointObject;
}

function plain({ address, port }: PlacedEndpoint): Endpoint {
  return { address, port };
}

function placedEndpoints(
  slices: readonly SliceObject[],
  { metadata }: ServedObject,
  { name, protocol }: ServedPortObject,
  family: EndpointClient['family'],
): readonly PlacedEndpoint[] {
  const own = slices.filter(
    (slice) =>
      slice.metadata.namespace === metadata.namespace &&
      slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name &&
      slice.addressType === (family === 'ipv4' ? 'IPv4' : 'IPv6'),
  );
  return own.flatMap(({ endpoints, ports }) => {
    const port = (ports ?? []).find((each) => (each.name ?? '') === (name ?? '') && (each.protocol ?? 'TCP') === (protocol ?? 'TCP'))?.port;
    return (endpoints ?? []).flatMap((endpoint) =>
      port ? endpoint.addresses.slice(0, 1).map((address) => ({ endpoint, address, port })) : [],
    );
  });
}

/** 2: ready. 1: serves while it terminates. 0: gets no connections. */
function rankOf({ endpoint: { conditions } }: PlacedEndpoint, { spec }: ServedObject): number {
  if (spec.publishNotReadyAddresses || (conditions?.ready ?? true)) return 2;
  return conditions?.terminating === true && (conditions.serving ?? false) ? 1 : 0;
}

function onceEach(placed: readonly PlacedEndpoint[], service: ServedObject): readonly PlacedEndpoint[] {
  const once = new Map<string, PlacedEndpoint>();
  for (const each of placed) {
    const key = `${isIp(each.address) ? parseIp(each.address).text : each.address} ${each.port}`;
    const known = once.get(key);
    if (!known || rankOf(each, service) > rankOf(known, service)) once.set(key, each);
  }
  return [...once.values()];
}

function nearOf<T extends { readonly endpoint: EndpointObject }>(ready: readonly T[], { node, zone }: EndpointClient): readonly T[] {
  const hinted = (hints: (endpoint: EndpointObject) => readonly { readonly name: string }[] | null | undefined, us: string | undefined) => {
    if (us === undefined || ready.some(({ endpoint }) => (hints(endpoint) ?? []).length === 0)) return [];
    return ready.filter(({ endpoint }) => hints(endpoint)?.some(({ name }) => name === us));
  };
  const ofNode = hinted(({ hints }) => hints?.forNodes, node);
  if (ofNode.length > 0) return ofNode;
  const ofZone = hinted(({ hints }) => hints?.forZones, zone);
  return ofZone.length > 0 ? ofZone : ready;
}
