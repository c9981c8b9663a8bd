import { type Cidr, cidrContains, type Family, type Ip, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { Transport } from '../../dataplane/pipeline/flow.ts';
import { nodePortAddress } from '../../dataplane/pipeline/well-known.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { Service, ServicePort } from '../../kubernetes/resources/service.ts';
import { isNear, type NodeLocation, topologyOf } from './endpoint-choice.ts';
import { type Candidate, candidatesOf, isUnroutable } from './endpoint-lists.ts';
import { FamilyEndpoints } from './family-endpoints.ts';
import type { ProxyConfig, ProxyNode } from './proxy-config.ts';
import { addressesOfEachPort, endpointsOfEachPort, ownAddressesOfEachPort, serviceBounds } from './service-bounds.ts';
import { endpointKey, type ServiceAddress, type ServiceEndpoint, type ServiceIntent } from './service-intent.ts';

/** Configuration and location with which Services are served. */
export interface Proxying {
  readonly node: ProxyNode;
  readonly config: ProxyConfig;
}

export const transports = { TCP: 'tcp', UDP: 'udp', SCTP: 'sctp' } as const satisfies Readonly<Record<ServicePort['protocol'], Transport>>;

/** Returns the reason why this proxy does not serve a Service, as text for operators; `undefined` if it does. */
export function skipReason(service: Service, { skipServices, serviceProxyName }: ProxyConfig): string | undefined {
  if (service.type === 'ExternalName') return 'ExternalName is for DNS';
  if (service.clusterIps.length === 0 || service.headlessLabel) return 'headless: DNS returns the endpoints';
  const { proxyName } = service;
  if (!isForProxy(service, serviceProxyName))
    return proxyName === undefined ? 'it names no proxy' : `served by ${JSON.stringify(proxyName)}`;
  const names = [`${service.namespace}/${service.name}`, ...service.clusterIps];
  return names.some((name) => skipServices.has(name)) ? 'skipped by configuration' : undefined;
}

/**
 * Reports whether an object is for this proxy. kube-proxy serves objects without the label, whatever its value; a proxy with a name serves
 * those with its name.
 */
function isForProxy({ proxyName }: Pick<Service | EndpointSlice, 'proxyName'>, serviceProxyName: string): boolean {
  return proxyName === (serviceProxyName === '' ? undefined : serviceProxyName);
}

/** Returns the slices that are for a proxy: their labels are checked individually, regardless of the Service's. */
function proxiedSlices(slices: readonly EndpointSlice[], { serviceProxyName }: ProxyConfig): readonly EndpointSlice[] {
  return slices.filter((slice) => slice.headlessLabel === undefined && isForProxy(slice, serviceProxyName));
}

/**
 * Returns the intents of a Service and its EndpointSlices on this node: one for each port in each of the Service's families that the node
 * has. Pure.
 *
 * @param all slices of the Service, in any order
 */
export function serviceIntents(service: Service, all: readonly EndpointSlice[], proxying: Proxying): readonly ServiceIntent[] {
  return [...eachServiceIntent(service, all, proxying)];
}

/** The same one by one, for a caller that yields in between: a Service may have thousands of ports. */
export function* eachServiceIntent(service: Service, all: readonly EndpointSlice[], proxying: Proxying): Generator<ServiceIntent> {
  if (skipReason(service, proxying.config) !== undefined) return;
  const slices = proxiedSlices(all, proxying.config);
  const ports = servedPorts(service);
  for (const clusterIp of onePerFamily(service.clusterIps.map(parseIp))) {
    if (!proxying.node.families.includes(clusterIp.family)) continue;
    const shared = familyOfService(service, slices, clusterIp, proxying);
    // Rejection reasons that concern all ports come with the first.
    for (const [at, port] of ports.entries()) yield portIntent(shared, port, at === 0 ? shared.objections : [], proxying);
  }
}

/** Properties that all ports of a Service share in one family: computed once, since each list of the object may be long. */
interface FamilyOfService {
  readonly service: Service;
  readonly clusterIp: Ip;
  readonly external: readonly ExternalAddress[];
  readonly sourceRanges: readonly Cidr[];
  readonly endpoints: FamilyEndpoints;
  readonly objections: readonly string[];
}

function familyOfService(service: Service, slices: readonly EndpointSlice[], clusterIp: Ip, { node, config }: Proxying): FamilyOfService {
  const { family } = clusterIp;
  const { external, refused } = externalAddresses(service, clusterIp, config);
  const { ranges, refused: refusedRanges } = sourceRanges(service, family);
  const endpoints = new FamilyEndpoints(slices, {
    family,
    publishNotReady: service.publishNotReadyAddresses,
    place: placeOf(node),
    most: endpointsOfEachPort(service.ports.length),
  });
  return {
    service,
    clusterIp,
    external,
    sourceRanges: ranges,
    endpoints,
    objections: [...tooManyPorts(service), ...(service.unread ?? []), ...refused, ...refusedRanges],
  };
}

function servedPorts({ ports }: Service): readonly ServicePort[] {
  return ports.length > serviceBounds.portAddresses ? ports.slice(0, serviceBounds.portAddresses) : ports;
}

function tooManyPorts({ ports }: Service): readonly string[] {
  const most = serviceBounds.portAddresses;
  return ports.length > most
    ? [`spec.ports: ${ports.length - most} of ${ports.length} ports are not served: a Service has at most ${most}`]
    : [];
}

function tooManyEndpoints(all: number | undefined, ports: number): readonly string[] {
  if (all === undefined) return [];
  const most = endpointsOfEachPort(ports);
  return [
    `endpoints: ${all - most} of ${all} of a port get no connections: a Service with ${ports === 1 ? 'one port' : `${ports} ports`} has at most ${most} each`,
  ];
}

function portIntent(shared: FamilyOfService, port: ServicePort, objections: readonly string[], { node, config }: Proxying): ServiceIntent {
  const { service, clusterIp } = shared;
  const { family } = clusterIp;
  const asked = addressesOf(service, port, clusterIp, shared.external, config);
  const unknowable = port.protocol === 'SCTP' && !node.sctp;
  const { cluster, local, anyEndpoint, refused, tooMany } = shared.endpoints.of(port);
  const addresses = withoutOwnLists(asked, cluster.length > local.length ? cluster : local, service.ports.length);
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
    // The userspace data path gives every SCTP packet the port 0: it would match any other Service's port.
    addresses: unknowable ? [] : addresses,
    internalPolicy: service.internalTrafficPolicy,
    externalPolicy: service.externalTrafficPolicy,
    ...(service.affinitySeconds === undefined ? {} : { affinitySeconds: service.affinitySeconds }),
    translation: config.bucketTranslation && isPlain ? 'bucket' : 'endpoint',
    sourceRanges: shared.sourceRanges,
    cluster: usesCluster ? cluster : [],
    local: usesLocal ? local : [],
    anyEndpoint,
    objections: [
      ...(unknowable ? [`port ${port.port}/SCTP: the userspace data path cannot distinguish SCTP ports`] : []),
      ...objections,
      ...tooManyEndpoints(tooMany, service.ports.length),
      ...(addresses.length < asked.length
        ? [
            `port ${port.port}: ${asked.length - addresses.length} external addresses that are endpoints’ as well are not served: they are too many`,
          ]
        : []),
      ...(refused.length > 0 ? [`port ${port.port}: no packets are sent to ${refused.length} endpoints such as ${refused[0]}`] : []),
    ],
  };
}

/**
 * Removes addresses over the bound of own lists. An address that is also an endpoint's needs its own list of endpoints: a connection to
 * that endpoint stays untranslated.
 */
function withoutOwnLists(
  addresses: readonly ServiceAddress[],
  endpoints: readonly ServiceEndpoint[],
  ports: number,
): readonly ServiceAddress[] {
  const most = ownAddressesOfEachPort(ports, endpoints.length);
  if (addresses.length <= most) return addresses;
  const keys = new Set(endpoints.map(endpointKey));
  let own = 0;
  return addresses.filter((address) => !keys.has(endpointKey(address)) || ++own <= most);
}

function intentName({ name, port, protocol }: ServicePort, family: Family): string {
  return `${name || `${port}-${protocol.toLowerCase()}`}/${family}`;
}

function placeOf({ name, zone }: ProxyNode): NodeLocation {
  return { node: name, ...(zone === undefined ? {} : { zone }) };
}

/** Returns the addresses of a Service to be served besides its cluster addresses; none if the Service is not for this proxy. */
export function requestedAddresses(service: Service, config: ProxyConfig): readonly (ServiceAddress & { readonly transport: Transport })[] {
  if (skipReason(service, config) !== undefined) return [];
  return onePerFamily(service.clusterIps.map(parseIp)).flatMap((clusterIp) => {
    const { external } = externalAddresses(service, clusterIp, config);
    return servedPorts(service).flatMap((port) =>
      addressesOf(service, port, clusterIp, external, config)
        .filter(({ kind }) => kind !== 'cluster')
        .map((address) => ({ ...address, transport: transports[port.protocol] })),
    );
  });
}

interface ExternalAddress {
  readonly kind: 'loadBalancer' | 'external';
  readonly ip: Ip;
}

/** Returns the addresses of one port; with a node port, that is one of them. */
function addressesOf(
  { type }: Service,
  { port, nodePort }: ServicePort,
  clusterIp: Ip,
  external: readonly ExternalAddress[],
  { proxyAll }: ProxyConfig,
): readonly ServiceAddress[] {
  const addresses: ServiceAddress[] = [{ kind: 'cluster', ip: clusterIp, port }];
  if (!proxyAll) return addresses;
  if (nodePort !== undefined && (type === 'NodePort' || type === 'LoadBalancer'))
    addresses.push({ kind: 'nodePort', ip: nodePortAddress[clusterIp.family], port: nodePort });
  for (const { kind, ip } of external) addresses.push({ kind, ip, port });
  return addresses;
}

/**
 * Returns load balancers' and external addresses of a Service in one family, which all its ports share. An address that is listed twice
 * gets the kind with more checks: load balancers' addresses have source ranges.
 */
function externalAddresses(
  service: Service,
  clusterIp: Ip,
  config: ProxyConfig,
): { readonly external: readonly ExternalAddress[]; readonly refused: readonly string[] } {
  if (!config.proxyAll) return { external: [], refused: [] };
  const most = addressesOfEachPort(service.ports.length);
  const known = new Set([clusterIp.text]);
  const external: ExternalAddress[] = [];
  const [unroutable, notAllowed] = [new NamedExamples(), new NamedExamples()];
  let tooMany = 0;
  const add = (kind: ExternalAddress['kind'], ip: Ip): void => {
    if (known.has(ip.text)) return;
    known.add(ip.text);
    if (isUnroutable(ip)) unroutable.add(ip.text);
    else if (external.length < most) external.push({ kind, ip });
    else tooMany++;
  };
  const ofFamily = (ips: readonly string[]): readonly Ip[] => {
    // By a character, which is faster than parsing an address of the other family.
    return ips.filter((text) => text.includes(':') === (clusterIp.family === 'ipv6')).map(parseIp);
  };
  if (service.type === 'LoadBalancer' && config.proxyLoadBalancerIps)
    for (const ip of ofFamily(service.loadBalancerIngress.filter(({ ipMode }) => ipMode === 'VIP').map(({ ip }) => ip)))
      add('loadBalancer', ip);
  for (const ip of ofFamily(service.externalIps)) {
    if (config.externalIpRanges.some((range) => cidrContains(range, ip))) add('external', ip);
    else notAllowed.add(ip.text);
  }
  const ports = service.ports.length === 1 ? 'one port' : `${service.ports.length} ports`;
  const refused = [
    ...unroutable.sentences((ip) => `${ip} belongs to no host`),
    ...notAllowed.sentences((ip) => `externalIP ${ip} is not in a range that the configuration allows (proxy.externalIPRanges)`),
    ...(tooMany > 0
      ? [`${tooMany} of ${tooMany + external.length} addresses are not served: a Service with ${ports} has at most ${most}`]
      : []),
  ];
  return { external, refused };
}

/** The first few strings of a list that may be long, and the number of others. */
class NamedExamples {
  static readonly #most = 3;
  readonly #texts: string[] = [];
  #count = 0;

  add(text: string): void {
    this.#count++;
    if (this.#texts.length < NamedExamples.#most) this.#texts.push(text);
  }

  sentences(about: (text: string) => string): readonly string[] {
    const others = this.#count - this.#texts.length;
    const sentences = this.#texts.map(about);
    return others > 0 ? [...sentences, `and ${others} more like this`] : sentences;
  }
}

/**
 * Returns the source ranges, like kube-proxy: ranges of one family do not restrict the other. If the requested ranges cannot be used, no
 * client is admitted.
 */
function sourceRanges(
  { type, loadBalancerSourceRanges, refusedSourceRanges = [], clearedSourceRanges = [] }: Service,
  family: Family,
): { readonly ranges: readonly Cidr[]; readonly refused: readonly string[] } {
  if (type !== 'LoadBalancer') return { ranges: [], refused: [] };
  const all = loadBalancerSourceRanges.map(parseCidr).filter((range) => range.family === family);
  const most = serviceBounds.sourceRanges;
  const aboutRanges = (list: typeof refusedSourceRanges): readonly string[] => {
    const named = new NamedExamples();
    for (const each of list) if (each.family === family) named.add(each.why);
    return named.sentences((why) => `loadBalancerSourceRanges: ${why}`);
  };
  const unusable = aboutRanges(refusedSourceRanges);
  const refused = [...unusable, ...aboutRanges(clearedSourceRanges)];
  if (all.length === 0 && unusable.length > 0) return { ranges: [noAddress[family]], refused };
  if (all.length <= most) return { ranges: all, refused };
  const tooMany = `loadBalancerSourceRanges: clients in ${all.length - most} of ${all.length} ranges are not served: a Service has at most ${most}`;
  return { ranges: all.slice(0, most), refused: [...refused, tooMany] };
}

/** Address that means "no address yet": no client of a Service has it. */
const noAddress: Readonly<Record<Family, Cidr>> = { ipv4: parseCidr('0.0.0.0/32'), ipv6: parseCidr('::/128') };

/** Limits to one per family. Kubernetes does not allow more; names of ports would not be unique. */
function onePerFamily(ips: readonly Ip[]): readonly Ip[] {
  return ips.filter(({ family }, at) => ips.findIndex((other) => other.family === family) === at);
}

/** Endpoint to which no client of this node is sent, and the reason as text for operators. */
interface UnusedEndpoint extends ServiceEndpoint {
  readonly why: string;
}

/** Returns the reasons why endpoints in a Service's slices are not used for `intent`. For operators: computed on request. */
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
