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

/**
 * Returns the endpoints that a client may get: the ready ones, or those that still serve while they terminate. Of the ready ones, where the
 * traffic policy does not ask for those of the node, those near the client, if each has a hint and one of them is for this node or zone.
 * Source: KEP-1669, KEP-2433, KEP-3015, and kube-proxy's `CategorizeEndpoints`.
 */
export function endpointsOf(
  slices: readonly SliceObject[],
  { metadata, spec }: ServedObject,
  { name, protocol }: ServedPortObject,
  client: EndpointClient,
): readonly Endpoint[] {
  const own = slices.filter(
    (slice) =>
      slice.metadata.namespace === metadata.namespace &&
      slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name &&
      slice.addressType === (client.family === 'ipv4' ? 'IPv4' : 'IPv6'),
  );
  const all = own.flatMap(({ endpoints, ports }) => {
    const port = (ports ?? []).find((each) => (each.name ?? '') === (name ?? '') && (each.protocol ?? 'TCP') === (protocol ?? 'TCP'))?.port;
    return (endpoints ?? []).flatMap((endpoint) =>
      port ? endpoint.addresses.slice(0, 1).map((address) => ({ endpoint, address, port })) : [],
    );
  });
  const allowed = client.isLocal ? all.filter(({ endpoint }) => endpoint.nodeName === client.node) : all;
  const ready = allowed.filter(({ endpoint }) => spec.publishNotReadyAddresses || (endpoint.conditions?.ready ?? true));
  const serving = allowed.filter(({ endpoint: { conditions } }) => conditions?.terminating === true && (conditions.serving ?? false));
  if (ready.length === 0) return serving;
  return client.isLocal ? ready : nearOf(ready, client);
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
