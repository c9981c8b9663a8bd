import { isIp, parseIp } from '../../../base/net/ip.ts';
import type { NodeObject } from '../reference/objects.ts';
import type { ForwardedObjects, ForwardedPacket, ServedObject, ServedPortObject } from './forwarded-objects.ts';

/** Kind of the address by which a client asks for a Service. */
type AskedKind = 'cluster' | 'nodePort' | 'external' | 'loadBalancer';

/** Service at the destination of a packet. */
export interface AskedService {
  readonly service: ServedObject;
  readonly kind: AskedKind;
  /** Absent: the Service has the address, and not the port. */
  readonly port?: ServedPortObject;
  /** Node that has the address, if one has. */
  readonly node?: NodeObject;
}

/**
 * Returns the Service that has the destination of a packet. A cluster address is one with all ports, and a node port is one at every address
 * of every node: the API server allocates both. Other addresses are written by users and controllers: the oldest Service has them, else the
 * first by name.
 */
export function serviceAt({ services, nodes }: ForwardedObjects, packet: ForwardedPacket): AskedService | undefined {
  const { destination } = packet;
  const proxied = services.filter(({ spec }) => spec.type !== 'ExternalName' && (spec.clusterIPs ?? []).some(isIp));
  const cluster = proxied.find(({ spec }) => (spec.clusterIPs ?? []).some((address) => isSame(address, destination)));
  if (cluster) return found(cluster, 'cluster', portOf(cluster, packet));
  const node = nodeAt(nodes, destination);
  if (node)
    for (const service of proxied) {
      const port = hasFamilyOf(service, destination) ? nodePortOf(service, packet) : undefined;
      if (port) return { ...found(service, 'nodePort', port), node };
    }
  const asked = proxied.toSorted(byAge).flatMap((service) => {
    const kind = hasFamilyOf(service, destination) ? requestedKind(service, destination) : undefined;
    return kind ? [{ ...found(service, kind, portOf(service, packet)), ...(node && { node }) }] : [];
  });
  const served = asked.find(({ port }) => port);
  // The other ports of a node's address are the node's.
  return served ?? (node ? undefined : asked[0]);
}

/** A Service is served in the families of its cluster addresses alone. Source: kube-proxy's `NewServicePort` maps addresses by family. */
function hasFamilyOf({ spec }: ServedObject, destination: string): boolean {
  if (!isIp(destination)) return false;
  const { family } = parseIp(destination);
  return (spec.clusterIPs ?? []).some((each) => isIp(each) && parseIp(each).family === family);
}

/**
 * Returns why no Service claims the destination of a packet, although one has it among its addresses, or a node port at it: it has no cluster
 * address of that family. Undefined if there is no such Service.
 */
export function unclaimedAt({ services, nodes }: ForwardedObjects, packet: ForwardedPacket): string | undefined {
  const { destination } = packet;
  const isNode = nodeAt(nodes, destination) !== undefined;
  for (const service of services) {
    const { spec, metadata } = service;
    if (spec.type === 'ExternalName' || !(spec.clusterIPs ?? []).some(isIp) || hasFamilyOf(service, destination)) continue;
    const kind = requestedKind(service, destination) ?? (isNode && nodePortOf(service, packet) ? 'nodePort' : undefined);
    if (!kind) continue;
    const family = destination.includes(':') ? 'IPv6' : 'IPv4';
    const has = {
      loadBalancer: 'it as an address of its load balancer',
      external: 'it as an external IP',
      nodePort: `node port ${packet.port}`,
    };
    return `no node serves ${destination} for Service ${metadata.namespace}/${metadata.name}, which has ${has[kind]}, and no ${family} cluster address`;
  }
  return undefined;
}

function found(service: ServedObject, kind: AskedKind, port: ServedPortObject | undefined): AskedService {
  return { service, kind, ...(port && { port }) };
}

export function isSame(a: string, b: string): boolean {
  return isIp(a) && isIp(b) && parseIp(a).text === parseIp(b).text;
}

/** Returns the node that has an address outside its pod networks. */
export function nodeAt(nodes: readonly NodeObject[], address: string): NodeObject | undefined {
  return nodes.find(({ status }) => status.addresses.some((each) => isSame(each.address, address)));
}

function portOf({ spec }: ServedObject, { port, protocol }: ForwardedPacket): ServedPortObject | undefined {
  return (spec.ports ?? []).find((each) => each.port === port && (each.protocol ?? 'TCP') === protocol);
}

function nodePortOf({ spec }: ServedObject, { port, protocol }: ForwardedPacket): ServedPortObject | undefined {
  if (spec.type !== 'NodePort' && spec.type !== 'LoadBalancer') return undefined;
  return (spec.ports ?? []).find(({ nodePort, protocol: own }) => nodePort === port && nodePort && (own ?? 'TCP') === protocol);
}

/** A load balancer's address has more checks than an external one: if it is listed as both, it is a load balancer's. */
function requestedKind({ spec, status }: ServedObject, destination: string): 'loadBalancer' | 'external' | undefined {
  const ingress = spec.type === 'LoadBalancer' ? (status?.loadBalancer?.ingress ?? []) : [];
  if (ingress.some(({ ip, ipMode }) => ipMode !== 'Proxy' && isSame(ip ?? '', destination))) return 'loadBalancer';
  return (spec.externalIPs ?? []).some((address) => isSame(address, destination)) ? 'external' : undefined;
}

function byAge(a: ServedObject, b: ServedObject): number {
  const [first, second] = [a, b].map(({ metadata }) => `${metadata.creationTimestamp ?? '~'} ${metadata.namespace}/${metadata.name}`);
  return (first ?? '') < (second ?? '') ? -1 : 1;
}
