import type { EndpointSlice } from '../kube/endpoint-slice.ts';
import type { Service, ServicePort } from '../kube/service.ts';
import { type Cidr, cidrContains, type Family, type Ip, parseCidr, parseIp } from '../net/ip.ts';
import type { Transport } from '../pipeline/flow.ts';
import { nodePortAddress } from '../pipeline/well-known.ts';
import { chooseEndpoints, isNear, type NodeLocation, topologyOf } from './endpoint-choice.ts';
import { type Candidate, candidatesOf, isUnroutable } from './endpoint-lists.ts';
import type { ProxyConfig, ProxyNode } from './proxy-config.ts';
import type { ServiceAddress, ServiceEndpoint, ServiceIntent } from './service-intent.ts';

/** Where and how Services are served. */
export interface Proxying {
  readonly node: ProxyNode;
  readonly config: ProxyConfig;
}

export const transports = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const satisfies Readonly<Record<ServicePort['protocol'], Transport>>;

/** Why this proxy is not to serve a Service, in words for people; `undefined` if it is ours. */
export function skipReason(service: Service, { skipServices, serviceProxyName }: ProxyConfig): string | undefined {
  if (service.type === 'ExternalName') return 'ExternalName is for DNS';
  if (service.clusterIps.length === 0 || service.headlessLabel) return 'headless: DNS gives the endpoints';
  const { proxyName } = service;
  if (!isForProxy(service, serviceProxyName))
    return proxyName === undefined ? 'it names no proxy' : `served by ${JSON.stringify(proxyName)}`;
  const names = [`${service.namespace}/${service.name}`, ...service.clusterIps];
  return names.some((name) => skipServices.has(name)) ? 'skipped by configuration' : undefined;
}

/** kube-proxy asks for objects without the label, with whatever value; a proxy with a name for those that have its name. */
function isForProxy({ proxyName }: Pick<Service | EndpointSlice, 'proxyName'>, serviceProxyName: string): boolean {
  return proxyName === (serviceProxyName === '' ? undefined : serviceProxyName);
}

/** The slices that a proxy is to look at: the labels are asked of each object by itself, whatever its Service has. */
function proxiedSlices(slices: readonly EndpointSlice[], { serviceProxyName }: ProxyConfig): readonly EndpointSlice[] {
  return slices.filter((slice) => slice.headlessLabel === undefined && isForProxy(slice, serviceProxyName));
}

/**
 * What a Service and its EndpointSlices come to on this node: one intent for each port in each of the Service's families that the
 * node has. Pure.
 *
 * @param all slices of the Service, in any order
 */
export function serviceIntents(service: Service, all: readonly EndpointSlice[], proxying: Proxying): readonly ServiceIntent[] {
  if (skipReason(service, proxying.config) !== undefined) return [];
  const slices = proxiedSlices(all, proxying.config);
  return onePerFamily(service.clusterIps.map(parseIp))
    .filter(({ family }) => proxying.node.families.includes(family))
    .flatMap((clusterIp) => service.ports.map((port) => portIntent({ service, slices, clusterIp, port }, proxying)));
}

interface Subject {
  readonly service: Service;
  readonly slices: readonly EndpointSlice[];
  readonly clusterIp: Ip;
  readonly port: ServicePort;
}

function portIntent({ service, slices, clusterIp, port }: Subject, { node, config }: Proxying): ServiceIntent {
  const { family } = clusterIp;
  const { addresses, refused } = addressesOf(service, port, clusterIp, config);
  const unknowable = port.protocol === 'SCTP' && !node.sctp;
  const found = candidatesOf(slices, { port, family, publishNotReady: service.publishNotReadyAddresses });
  const { cluster, local, anyEndpoint } = chooseEndpoints(found.all, placeOf(node));
  const external = addresses.some(({ kind }) => kind !== 'cluster');
  const usesLocal = service.internalTrafficPolicy === 'Local' || (external && service.externalTrafficPolicy === 'Local');
  const transport = transports[port.protocol];
  const isPlain = transport !== 'udp' && service.affinitySeconds === undefined;
  const usesCluster = service.internalTrafficPolicy === 'Cluster' || external;
  return {
    name: intentName(port, family),
    family,
    transport,
    port: port.port,
    // The userspace data path gives every SCTP packet the port 0: it would pass for that of any other Service's port.
    addresses: unknowable ? [] : addresses,
    internalPolicy: service.internalTrafficPolicy,
    externalPolicy: service.externalTrafficPolicy,
    ...(service.affinitySeconds === undefined ? {} : { affinitySeconds: service.affinitySeconds }),
    translation: config.bucketTranslation && isPlain ? 'bucket' : 'endpoint',
    sourceRanges: sourceRanges(service, family),
    cluster: usesCluster ? cluster : [],
    local: usesLocal ? local : [],
    anyEndpoint,
    objections: [
      ...(unknowable ? [`port ${port.port}/SCTP: the userspace data path cannot tell SCTP ports apart`] : []),
      ...refused,
      ...refusedRanges(service, family),
      ...(found.refused.length > 0
        ? [`port ${port.port}: no packets are sent to ${found.refused.length} endpoints such as ${found.refused[0]}`]
        : []),
    ],
  };
}

function intentName({ name, port, protocol }: ServicePort, family: Family): string {
  return `${name || `${port}-${protocol.toLowerCase()}`}/${family}`;
}

function placeOf({ name, zone }: ProxyNode): NodeLocation {
  return { node: name, ...(zone === undefined ? {} : { zone }) };
}

/** What of a Service is to be served besides its cluster addresses; nothing of a Service that is not this proxy's. */
export function requestedAddresses(service: Service, config: ProxyConfig): readonly (ServiceAddress & { readonly transport: Transport })[] {
  if (skipReason(service, config) !== undefined) return [];
  return onePerFamily(service.clusterIps.map(parseIp)).flatMap((clusterIp) =>
    service.ports.flatMap((port) =>
      addressesOf(service, port, clusterIp, config)
        .addresses.filter(({ kind }) => kind !== 'cluster')
        .map((address) => ({ ...address, transport: transports[port.protocol] })),
    ),
  );
}

interface FilteredAddresses {
  readonly addresses: readonly ServiceAddress[];
  readonly refused: readonly string[];
}

/** An address that is named twice keeps the meaning that is checked more: load balancers' addresses have source ranges. */
function addressesOf(service: Service, { port, nodePort }: ServicePort, clusterIp: Ip, config: ProxyConfig): FilteredAddresses {
  const addresses: ServiceAddress[] = [{ kind: 'cluster', ip: clusterIp, port }];
  const refused: string[] = [];
  if (!config.proxyAll) return { addresses, refused };
  const add = (kind: ServiceAddress['kind'], ip: Ip): void => {
    if (ip.family !== clusterIp.family || addresses.some((other) => other.ip.text === ip.text && other.port === port)) return;
    if (isUnroutable(ip)) refused.push(`${ip.text} is nobody’s address`);
    else addresses.push({ kind, ip, port });
  };
  if (nodePort !== undefined && (service.type === 'NodePort' || service.type === 'LoadBalancer'))
    addresses.push({ kind: 'nodePort', ip: nodePortAddress[clusterIp.family], port: nodePort });
  if (service.type === 'LoadBalancer' && config.proxyLoadBalancerIps)
    for (const { ip, ipMode } of service.loadBalancerIngress) if (ipMode === 'VIP') add('loadBalancer', parseIp(ip));
  for (const ip of service.externalIps.map(parseIp)) {
    if (config.externalIpRanges.some((range) => cidrContains(range, ip))) add('external', ip);
    else if (ip.family === clusterIp.family)
      refused.push(`externalIP ${ip.text} is not in a range that the configuration allows (proxy.externalIPRanges)`);
  }
  return { addresses, refused };
}

/**
 * As kube-proxy has it: ranges of one family do not close the other. Where what was asked for cannot be used, the door that it was to
 * close partly is closed to all.
 */
function sourceRanges({ type, loadBalancerSourceRanges, refusedSourceRanges = [] }: Service, family: Family): readonly Cidr[] {
  if (type !== 'LoadBalancer') return [];
  const ranges = loadBalancerSourceRanges.map(parseCidr).filter((range) => range.family === family);
  const isClosed = ranges.length === 0 && refusedSourceRanges.some((refused) => refused.family === family);
  return isClosed ? [noAddress[family]] : ranges;
}

/** The address that says "no address yet": no client of a Service has it. */
const noAddress: Readonly<Record<Family, Cidr>> = { ipv4: parseCidr('0.0.0.0/32'), ipv6: parseCidr('::/128') };

function refusedRanges({ type, refusedSourceRanges = [], clearedSourceRanges = [] }: Service, family: Family): readonly string[] {
  if (type !== 'LoadBalancer') return [];
  return [...refusedSourceRanges, ...clearedSourceRanges]
    .filter((each) => each.family === family)
    .map(({ why }) => `loadBalancerSourceRanges: ${why}`);
}

/** More are not possible in Kubernetes; names of ports would not be unique. */
function onePerFamily(ips: readonly Ip[]): readonly Ip[] {
  return ips.filter(({ family }, at) => ips.findIndex((other) => other.family === family) === at);
}

/** An endpoint that no client of this node's is sent to, and the reason in words for people. */
interface UnusedEndpoint extends ServiceEndpoint {
  readonly why: string;
}

/** Why endpoints that a Service's slices name for `intent` are not used. For people: computed on request. */
export function unusedEndpoints(
  service: Service,
  slices: readonly EndpointSlice[],
  intent: ServiceIntent,
  { node, config }: Proxying,
): readonly UnusedEndpoint[] {
  const port = service.ports.find((each) => intentName(each, intent.family) === intent.name);
  if (!port) return [];
  const { all } = candidatesOf(proxiedSlices(slices, config), {
    port,
    family: intent.family,
    publishNotReady: service.publishNotReadyAddresses,
  });
  const place = placeOf(node);
  const topology = topologyOf(all, place);
  const used = new Set([...intent.cluster, ...intent.local].map(({ ip, port: number }) => `${ip.text} ${number}`));
  const why = (each: Candidate): string => {
    if (!each.ready) return each.leaving ? 'terminating, and others are ready' : 'not ready';
    if (!isNear(each, topology, place)) return topology === 'node' ? 'hinted for other nodes' : 'hinted for other zones';
    return each.nodeName === undefined ? 'on no node, and the policy is Local' : `on node ${each.nodeName}, and the policy is Local`;
  };
  return all
    .filter(({ ip, port: number }) => !used.has(`${ip.text} ${number}`))
    .map((each) => ({ ip: each.ip, port: each.port, why: why(each) }));
}
