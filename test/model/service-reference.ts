import { cidrContains, type Ip, parseCidr, parseIp } from '../../src/base/net/ip.ts';
import { unpackEndpoints } from '../../src/base/net/packed-endpoints.ts';
import type { MatchProtocol } from '../../src/dataplane/pipeline/flow.ts';
import type { SceneService } from '../support/scene-service.ts';

/** A client, with the properties by which Kubernetes distinguishes clients. */
export interface ServiceClient {
  readonly kind: 'pod' | 'node' | 'external';
  readonly ip: Ip;
}

/** The node of a client, and what is known there. */
export interface Vantage {
  readonly nodeName: string;
  readonly zone?: string;
  readonly nodeAddresses: readonly Ip[];
  /** Addresses of this node's node ports. */
  readonly nodePortIp: Readonly<Record<'ipv4' | 'ipv6', Ip>>;
  readonly externalRanges: readonly { readonly text: string }[];
  readonly sctp: boolean;
}

export interface ServiceDestination {
  readonly protocol: MatchProtocol | undefined;
  readonly ip: Ip;
  readonly port: number;
}

/** Kubernetes' promise: one of these endpoints, a refusal, or silence. */
export type Promised =
  | { readonly what: 'endpoints'; readonly endpoints: readonly string[]; readonly service: string; readonly affinity: boolean }
  | { readonly what: 'refused' }
  | { readonly what: 'dropped' };

type Endpoint = ReturnType<typeof unpackEndpoints>[number] & { readonly at: string };

/**
 * Endpoints of each client, from the documentation and nothing else: "Virtual IPs and Service Proxies" (traffic policies, terminating
 * endpoints, session affinity), "Service" (types, external IPs, source ranges), "Topology Aware Routing", KEP-1669, KEP-2433, KEP-3015,
 * KEP-1860 (ipMode), and the reference of the Service and EndpointSlice types.
 *
 * @returns undefined if the destination is not a Service
 */
export function promised(
  services: readonly SceneService[],
  asked: ServiceDestination,
  by: ServiceClient,
  here: Vantage,
): Promised | undefined {
  for (const each of services) {
    const { service } = each;
    if (service.type === 'ExternalName' || service.clusterIps.length === 0) continue;
    if (service.headlessLabel || service.proxyName !== undefined) continue;
    if (!service.clusterIps.some((text) => parseIp(text).family === asked.ip.family)) continue;
    for (const port of service.ports) {
      if (port.protocol.toLowerCase() !== asked.protocol || (asked.protocol === 'sctp' && !here.sctp)) continue;
      const how = howAsked(each, port, asked, here);
      if (how !== undefined) return answer(each, { port, how }, { asked, by, here });
    }
  }
  return undefined;
}

type How = 'inside' | 'nodePort' | 'external' | 'loadBalancer';
type Port = SceneService['service']['ports'][number];

function howAsked({ service }: SceneService, port: Port, { ip, port: number }: ServiceDestination, here: Vantage): How | undefined {
  const is = (texts: readonly string[]): boolean => texts.some((text) => parseIp(text).text === ip.text);
  const outward = service.type === 'NodePort' || service.type === 'LoadBalancer';
  if (number === port.port) {
    if (is(service.clusterIps)) return 'inside';
    // "VIP": the balancer delivers with its own address as destination; "Proxy": with the node's or the pod's.
    if (
      service.type === 'LoadBalancer' &&
      is(service.loadBalancerIngress.flatMap(({ ip: text, ipMode }) => (ipMode === 'VIP' ? [text] : [])))
    )
      return 'loadBalancer';
    const mayBe = here.externalRanges.some(({ text }) => cidrContains(parseCidr(text), ip));
    if (is(service.externalIps) && mayBe) return 'external';
  }
  return outward && number === port.nodePort && ip.text === here.nodePortIp[ip.family].text ? 'nodePort' : undefined;
}

interface Circumstances {
  readonly asked: ServiceDestination;
  readonly by: ServiceClient;
  readonly here: Vantage;
}

function answer(each: SceneService, { port, how }: { port: Port; how: How }, { asked, by, here }: Circumstances): Promised {
  const { service } = each;
  if (how === 'loadBalancer' && !mayAsk(each, by, here)) return { what: 'dropped' };
  const all = endpointsOf(each, port, asked.ip.family);
  const policy = how === 'inside' ? service.internalTrafficPolicy : by.kind === 'external' ? service.externalTrafficPolicy : 'Cluster';
  const ours = policy === 'Local' ? all.filter(({ nodeName }) => nodeName === here.nodeName) : all;
  const ready = ours.filter((one) => one.ready);
  // Topology is a preference among ready endpoints; a local endpoint is never too far.
  const near = policy === 'Local' ? ready : nearest(ready, here);
  const usable = near.length > 0 ? near : ours.filter((one) => one.serving && one.terminating);
  if (usable.length > 0)
    return {
      what: 'endpoints',
      endpoints: usable.map(({ at }) => at),
      service: `${service.namespace}/${service.name}/${port.name}`,
      affinity: service.affinitySeconds !== undefined,
    };
  const somewhere = all.some((one) => one.ready || (one.serving && one.terminating));
  return { what: somewhere ? 'dropped' : 'refused' };
}

/** `spec.loadBalancerSourceRanges` of the address's family; the node may if one of its addresses may. */
function mayAsk({ service }: SceneService, by: ServiceClient, here: Vantage): boolean {
  const ranges = service.loadBalancerSourceRanges.map(parseCidr).filter(({ family }) => family === by.ip.family);
  const mine = by.kind === 'node' ? [by.ip, ...here.nodeAddresses] : [by.ip];
  return ranges.length === 0 || ranges.some((range) => mine.some((ip) => cidrContains(range, ip)));
}

/** Each address and port once; of two that disagree, the one in the better state. */
function endpointsOf({ service, slices }: SceneService, port: Port, family: Ip['family']): readonly Endpoint[] {
  const found = new Map<string, Endpoint>();
  for (const slice of slices) {
    const target = slice.ports.find(({ name, protocol }) => name === port.name && protocol === port.protocol)?.port;
    if (slice.family !== family || target === undefined) continue;
    for (const endpoint of unpackEndpoints(slice.endpoints)) {
      const at = `${endpoint.addresses[0]} ${target}`;
      const one = { ...endpoint, ready: endpoint.ready || service.publishNotReadyAddresses, at };
      const before = found.get(at);
      if (!before || worth(one) > worth(before)) found.set(at, one);
    }
  }
  return [...found.values()];
}

function worth({ ready, serving, terminating }: Endpoint): number {
  return ready ? 2 : serving && terminating ? 1 : 0;
}

/** Hints are followed only if all endpoints have them and one applies; those for nodes precede those for zones. */
function nearest(ready: readonly Endpoint[], { nodeName, zone }: Vantage): readonly Endpoint[] {
  const meant = (hints: readonly (readonly string[] | undefined)[], us: string | undefined): readonly Endpoint[] =>
    us === undefined || hints.some((each) => each === undefined) ? [] : ready.filter((_, at) => hints[at]?.includes(us));
  const forNode = meant(
    ready.map(({ nodeHints }) => nodeHints),
    nodeName,
  );
  if (forNode.length > 0) return forNode;
  const forZone = meant(
    ready.map(({ zoneHints }) => zoneHints),
    zone,
  );
  return forZone.length > 0 ? forZone : ready;
}
