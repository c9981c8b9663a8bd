import { cidrContains, isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { PodObject, PolicyObjects } from '../reference/objects.ts';
import { judge } from '../reference/reference-verdict.ts';

/** Service (core/v1), with the fields that decide where its clients' packets go. */
export interface ServedObject {
  readonly metadata: { readonly namespace: string; readonly name: string };
  readonly spec: {
    readonly clusterIPs?: readonly string[] | null;
    readonly ports?: readonly ServedPortObject[] | null;
    readonly internalTrafficPolicy?: string | null;
    /** Policy for clients outside the cluster. */
    readonly externalTrafficPolicy?: string | null;
    readonly publishNotReadyAddresses?: boolean | null;
  };
}

interface ServedPortObject {
  readonly name?: string | null;
  readonly protocol?: string | null;
  readonly port: number;
}

/** EndpointSlice (discovery.k8s.io/v1). */
export interface SliceObject {
  readonly metadata: { readonly namespace: string; readonly labels?: Readonly<Record<string, string>> | null };
  readonly addressType: string;
  readonly endpoints?: readonly EndpointObject[] | null;
  readonly ports?: readonly { readonly name?: string | null; readonly protocol?: string | null; readonly port?: number | null }[] | null;
}

interface EndpointObject {
  readonly addresses: readonly string[];
  readonly nodeName?: string | null;
  readonly conditions?: {
    readonly ready?: boolean | null;
    readonly serving?: boolean | null;
    readonly terminating?: boolean | null;
  } | null;
}

/** Objects of a cluster that decide about a packet. */
export interface ForwardedObjects extends PolicyObjects {
  readonly services: readonly ServedObject[];
  readonly slices: readonly SliceObject[];
}

/** Packet that opens a connection. */
export interface ForwardedPacket {
  readonly source: string;
  readonly destination: string;
  /** `TCP`, `UDP`, `SCTP`, or another, which has no ports. */
  readonly protocol: string;
  readonly port?: number;
  /** Node of the sender. */
  readonly node: string;
}

/** Meaning of the objects for a packet. */
interface Meaning {
  readonly verdict: 'allowed' | 'denied';
  /** Sentence that gives the reason. */
  readonly why: string;
  /** Rules that allow it, or policies that isolate the end that denies it. */
  readonly by: readonly string[];
  /** Present if it is denied because a Service does not have the port: nodes that do not know the range of Services send it out instead. */
  readonly isUnserved?: true;
}

/** An endpoint of a Service. */
interface Endpoint {
  readonly address: string;
  readonly port: number;
}

/**
 * Derives from API objects alone whether a packet arrives: what Services, addresses of pods and nodes, and policies specify. It knows no
 * flow, table or compiler.
 *
 * @param endpoint endpoint that the data path chose; absent for a packet that no Service translates
 */
export function meaningOf(objects: ForwardedObjects, packet: ForwardedPacket, endpoint?: Endpoint): Meaning {
  const service = serviceAt(objects.services, packet);
  if (!service) return meaningAt(objects, packet, { address: packet.destination, port: packet.port ?? 0 }, false);
  const name = `${service.object.metadata.namespace}/${service.object.metadata.name}`;
  if (!service.port) return { ...denied(`Service ${name} has no port ${packet.port}/${packet.protocol}`), isUnserved: true };
  const endpoints = endpointsFor(objects.slices, service.object, service.port, packet);
  if (endpoints.length === 0) return denied(`Service ${name} has no endpoint for a client on ${packet.node}`);
  if (!endpoint) return meaningAt(objects, packet, endpoints[0] ?? { address: packet.destination, port: 0 }, true);
  if (!endpoints.some(({ address, port }) => isSame(address, endpoint.address) && port === endpoint.port))
    return denied(`${endpoint.address} port ${endpoint.port} is no endpoint of Service ${name} for a client on ${packet.node}`);
  return meaningAt(objects, packet, endpoint, true);
}

function denied(why: string): Meaning {
  return { verdict: 'denied', why, by: [] };
}

function isSame(a: string, b: string): boolean {
  return isIp(a) && isIp(b) && parseIp(a).text === parseIp(b).text;
}

function serviceAt(services: readonly ServedObject[], { destination, protocol, port }: ForwardedPacket) {
  const object = services.find(({ spec }) => (spec.clusterIPs ?? []).some((address) => isSame(address, destination)));
  return object && { object, port: (object.spec.ports ?? []).find((each) => each.port === port && (each.protocol ?? 'TCP') === protocol) };
}

/** Endpoints that this client may get: the ready ones, or those that still serve while they terminate; of its own node for internalTrafficPolicy Local. */
function endpointsFor(
  slices: readonly SliceObject[],
  service: ServedObject,
  port: ServedPortObject,
  { destination, node }: ForwardedPacket,
): readonly Endpoint[] {
  const family = parseIp(destination).family;
  return endpointsOf(slices, service, port, { family, ...(service.spec.internalTrafficPolicy === 'Local' && { node }) });
}

/** Client of an address of a Service from outside the cluster. */
interface ExternalQuestion {
  readonly port: number;
  readonly protocol: string;
  readonly family: 'ipv4' | 'ipv6';
  /** Node at which the packet enters. */
  readonly node: string;
}

/**
 * Returns the endpoints that a client outside the cluster may get: those of the node alone for externalTrafficPolicy Local.
 *
 * @param key Service, `namespace/name`
 */
export function externalEndpoints(
  { services, slices }: ForwardedObjects,
  key: string,
  { port, protocol, family, node }: ExternalQuestion,
): readonly Endpoint[] {
  const service = services.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
  const own = service?.spec.ports?.find((each) => each.port === port && (each.protocol ?? 'TCP') === protocol);
  if (!service || !own) return [];
  return endpointsOf(slices, service, own, { family, ...(service.spec.externalTrafficPolicy === 'Local' && { node }) });
}

/** @param where family, and the node whose endpoints alone are used */
function endpointsOf(
  slices: readonly SliceObject[],
  { metadata, spec }: ServedObject,
  { name, protocol }: ServedPortObject,
  where: { readonly family: 'ipv4' | 'ipv6'; readonly node?: string },
): readonly Endpoint[] {
  const family = where.family === 'ipv4' ? 'IPv4' : 'IPv6';
  const own = slices.filter(
    (slice) =>
      slice.metadata.namespace === metadata.namespace &&
      slice.metadata.labels?.['kubernetes.io/service-name'] === metadata.name &&
      slice.addressType === family,
  );
  const all = own.flatMap(({ endpoints, ports }) => {
    const port = (ports ?? []).find((each) => (each.name ?? '') === (name ?? '') && (each.protocol ?? 'TCP') === (protocol ?? 'TCP'))?.port;
    return (endpoints ?? []).flatMap((endpoint) =>
      port ? endpoint.addresses.slice(0, 1).map((address) => ({ endpoint, address, port })) : [],
    );
  });
  const near = where.node === undefined ? all : all.filter(({ endpoint }) => endpoint.nodeName === where.node);
  const ready = near.filter(({ endpoint }) => spec.publishNotReadyAddresses || (endpoint.conditions?.ready ?? true));
  const serving = near.filter(({ endpoint: { conditions } }) => conditions?.terminating === true && (conditions.serving ?? false));
  return ready.length > 0 ? ready : serving;
}

function meaningAt(objects: ForwardedObjects, packet: ForwardedPacket, { address, port }: Endpoint, throughService: boolean): Meaning {
  const owner = ownerOf(objects, address);
  if (owner === 'none') return denied(`no pod has the address ${address}`);
  const { verdict, egress, ingress } = judge(objects, {
    from: packet.source,
    to: address,
    protocol: packet.protocol,
    ...(packet.port !== undefined && { port }),
    throughService,
  });
  const ends = [
    { end: egress, direction: 'egress' },
    { end: ingress, direction: 'ingress' },
  ];
  const denying = ends.find(({ end }) => end?.verdict === 'deny');
  if (verdict === 'deny' && denying?.end) {
    const { decidedBy, isolatedBy, why } = denying.end;
    return { verdict: 'denied', why: `${denying.direction}: ${why}`, by: decidedBy === undefined ? isolatedBy : [decidedBy] };
  }
  const by = ends.flatMap(({ end }) => (end?.decidedBy === undefined ? (end?.allowedBy ?? []) : [end.decidedBy]));
  return { verdict: 'allowed', why: by.length > 0 ? 'rules allow it' : 'no policy isolates an end', by };
}

function ownerOf({ pods, nodes }: ForwardedObjects, address: string): 'pod' | 'none' | 'other' {
  const isLive = ({ status }: PodObject): boolean => status.phase !== 'Succeeded' && status.phase !== 'Failed';
  if (pods.some((pod) => isLive(pod) && (pod.status.podIPs ?? []).some(({ ip }) => isSame(ip, address)))) return 'pod';
  const ip = parseIp(address);
  const networks = nodes.flatMap(({ spec }) => (spec.podCIDRs ?? []).map((text) => parseCidr(text)));
  const inside = networks.find((network) => cidrContains(network, ip));
  // The first addresses of a pod network belong to its node.
  const isNode = inside !== undefined && ip.value - inside.network.value <= 1n;
  return inside && !isNode ? 'none' : 'other';
}
