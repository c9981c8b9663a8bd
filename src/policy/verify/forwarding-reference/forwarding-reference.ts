import { cidrAddress, cidrContains, type Family, isIp, parseCidr, parseIp, readCidr } from '../../../base/net/ip.ts';
import type { NodeObject, PodObject } from '../reference/objects.ts';
import { judge } from '../reference/reference-verdict.ts';
import type { ForwardedObjects, ForwardedPacket } from './forwarded-objects.ts';
import { type AskedService, isSame, serviceAt, unclaimedAt } from './service-at.ts';
import { type ChosenEndpoints, type Endpoint, endpointsOf } from './service-endpoints.ts';

/** Meaning of the objects for a packet. */
interface Meaning {
  readonly verdict: 'allowed' | 'denied';
  /** Sentence that gives the reason. */
  readonly why: string;
  /** Rules that allow it, or policies that isolate the end that denies it. */
  readonly by: readonly string[];
  /** Present if it is denied because a Service does not have the port: nodes that do not know the range of Services send it out instead. */
  readonly isUnserved?: true;
  /** Why a Service that has the address is not served there: the packet does not reach the Service. */
  readonly unclaimed?: string;
}

/**
 * Derives from API objects alone whether a packet arrives: what Services, addresses of pods and nodes, and policies specify. It knows no
 * flow, table or compiler.
 *
 * @param endpoint endpoint that the data path chose; absent for a packet that no Service translates
 */
export function meaningOf(objects: ForwardedObjects, packet: ForwardedPacket, endpoint?: Endpoint): Meaning {
  const asked = serviceAt(objects, packet);
  if (!asked) return directMeaning(objects, packet);
  const { service, port, kind } = asked;
  const name = `Service ${service.metadata.namespace}/${service.metadata.name}`;
  if (!port) return { ...denied(`${name} has no port ${packet.port}/${packet.protocol}`), isUnserved: true };
  const client = clientOf(objects, packet, asked);
  const refusal = refusingRanges(objects, asked, client);
  if (refusal !== undefined) return denied(`loadBalancerSourceRanges of ${name} (${refusal}) do not contain ${client.source}`);
  const { endpoints } = endpointsFor(objects, asked, client);
  const { isLocal } = policyOf(asked, client);
  const policy = isLocal ? `, ${kind === 'cluster' ? 'internal' : 'external'}TrafficPolicy Local` : '';
  if (endpoints.length === 0) return denied(`${name} has no endpoint for a client on ${client.node}${policy}`);
  if (!endpoint) return servedMeaning(objects, packet, { asked, client, endpoint: endpoints[0] ?? { address: '', port: 0 } });
  if (!endpoints.some(({ address, port: own }) => isSame(address, endpoint.address) && own === endpoint.port))
    return denied(`${endpoint.address} port ${endpoint.port} is no endpoint of ${name} for a client on ${client.node}${policy}`);
  return servedMeaning(objects, packet, { asked, client, endpoint });
}

/** Choice of an endpoint for a packet that opens a connection to a Service. */
interface ServedChoice {
  readonly endpoints: readonly Endpoint[];
  /** Which endpoints the client gets at this kind of address, and why; absent if there is one for all clients. */
  readonly text?: string;
}

const kindTexts = {
  cluster: 'a cluster address',
  nodePort: 'a node port',
  external: 'an external IP',
  loadBalancer: 'a load balancer address',
};
const clientTexts = { pod: 'a pod', node: 'a process', external: 'an external client' };
const reasonTexts = { hints: 'its topology hints', terminating: 'no other is ready' };

/** Returns the endpoints that the client of a packet may get; undefined if no Service has its destination and port. */
export function choiceFor(objects: ForwardedObjects, packet: ForwardedPacket): ServedChoice | undefined {
  const asked = serviceAt(objects, packet);
  if (!asked?.port) return undefined;
  const client = clientOf(objects, packet, asked);
  const { endpoints, used, reasons } = endpointsFor(objects, asked, client);
  const { externalTrafficPolicy } = asked.service.spec;
  const { isLocal } = policyOf(asked, client);
  const isInside = asked.kind !== 'cluster' && client.is !== 'external' && externalTrafficPolicy === 'Local';
  const why = [
    ...(isLocal ? [`${asked.kind === 'cluster' ? 'internal' : 'external'}TrafficPolicy Local`] : []),
    ...(isInside ? ['externalTrafficPolicy Local does not concern pods and nodes'] : []),
    ...reasons.map((each) => reasonTexts[each]),
  ];
  const text = `${clientTexts[client.is]} on ${client.node} gets ${endpoints.length} of ${used} at ${kindTexts[asked.kind]}`;
  const isOne = used === 1 && endpoints.length === 1 && why.length === 0;
  return { endpoints, ...(!isOne && { text: why.length > 0 ? `${text}: ${why.join(', ')}` : text }) };
}

function denied(why: string): Meaning {
  return { verdict: 'denied', why, by: [] };
}

/** Client of a Service as the node that translates its packets sees it. */
interface Client {
  readonly is: 'pod' | 'node' | 'external';
  /** Node that translates. */
  readonly node: string;
  readonly family: Family;
  /** Source address there. */
  readonly source: string;
}

/**
 * A node's address is reached at that node, from another one with the address of the sender's node; an address that a Service was given is
 * served to pods on their own node, whatever else has it.
 */
function clientOf(objects: ForwardedObjects, { source, node }: ForwardedPacket, { kind, node: owner }: AskedService): Client {
  const { family } = parseIp(source);
  const sender = objects.nodes.find(({ metadata }) => metadata.name === node);
  const own = { is: placeOf(objects, sender, source), node, family, source } as const;
  if (!owner || owner.metadata.name === node || (kind !== 'nodePort' && own.is === 'pod')) return own;
  return { is: 'external', node: owner.metadata.name, family, source: own.is === 'external' ? source : addressOf(sender, family, source) };
}

/** The first address of a pod network is the node's own. Pods keep an address of a network that their node had before. */
function placeOf({ pods }: ForwardedObjects, node: NodeObject | undefined, source: string): Client['is'] {
  const network = networkAround(node ? [node] : [], source);
  const isOfNode = node?.status.addresses.some(({ address }) => isSame(address, source)) ?? false;
  if (!network) return !isOfNode && pods.some((pod) => hasAddress(pod, source)) ? 'pod' : 'external';
  return cidrAddress(network, 1n).text === parseIp(source).text ? 'node' : 'pod';
}

function networkAround(nodes: readonly NodeObject[], address: string) {
  const ip = parseIp(address);
  return nodes.flatMap(({ spec }) => (spec.podCIDRs ?? []).map(parseCidr)).find((network) => cidrContains(network, ip));
}

function addressOf(node: NodeObject | undefined, family: Family, otherwise: string): string {
  const found = node?.status.addresses.find(
    ({ type, address }) => type === 'InternalIP' && isIp(address) && parseIp(address).family === family,
  );
  return found?.address ?? otherwise;
}

/** Returns the ranges of a load balancer's Service if none contains the client: those of its family, of which there are none for all clients. */
function refusingRanges({ nodes }: ForwardedObjects, { service, kind }: AskedService, { is, node, family, source }: Client) {
  if (kind !== 'loadBalancer') return undefined;
  const ranges = (service.spec.loadBalancerSourceRanges ?? [])
    .map((text) => readCidr(text.trim()).cidr)
    .filter((range) => range.family === family);
  // The node itself is admitted by each of its addresses.
  const own = is === 'node' ? (nodes.find(({ metadata }) => metadata.name === node)?.status.addresses ?? []) : [];
  const sources = [source, ...own.map(({ address }) => address)].filter(isIp).map(parseIp);
  if (ranges.length === 0 || ranges.some((range) => sources.some((ip) => cidrContains(range, ip)))) return undefined;
  return ranges.map(({ text }) => text).join(', ');
}

/** Pods and the node itself get every endpoint at addresses for external clients. */
function policyOf({ service: { spec }, kind }: AskedService, { is }: Client): { readonly isLocal: boolean } {
  if (kind === 'cluster') return { isLocal: spec.internalTrafficPolicy === 'Local' };
  return { isLocal: spec.externalTrafficPolicy === 'Local' && is === 'external' };
}

function endpointsFor({ slices, nodes }: ForwardedObjects, asked: AskedService, client: Client): ChosenEndpoints {
  const { service, port } = asked;
  const zone = nodes.find(({ metadata }) => metadata.name === client.node)?.metadata.labels?.['topology.kubernetes.io/zone'];
  const place = { family: client.family, node: client.node, ...(zone !== undefined && { zone }) };
  return port ? endpointsOf(slices, service, port, { ...place, ...policyOf(asked, client) }) : { endpoints: [], used: 0, reasons: [] };
}

/** Client of an address of a Service from outside the cluster. */
interface ExternalQuestion {
  readonly port: number;
  readonly protocol: string;
  readonly family: Family;
  /** Node at which the packet enters. */
  readonly node: string;
}

/**
 * Returns the endpoints that a client outside the cluster may get: those of the node alone for externalTrafficPolicy Local.
 *
 * @param key Service, `namespace/name`
 */
export function externalEndpoints(
  objects: ForwardedObjects,
  key: string,
  { port, protocol, family, node }: ExternalQuestion,
): readonly Endpoint[] {
  const service = objects.services.find(({ metadata }) => `${metadata.namespace}/${metadata.name}` === key);
  const own = service?.spec.ports?.find((each) => each.port === port && (each.protocol ?? 'TCP') === protocol);
  if (!service || !own) return [];
  return endpointsFor(objects, { service, kind: 'nodePort', port: own }, { is: 'external', node, family, source: '' }).endpoints;
}

/** A packet that no Service translates. */
function directMeaning(objects: ForwardedObjects, packet: ForwardedPacket): Meaning {
  const { source, destination, protocol, port } = packet;
  const owner = ownerOf(objects, destination);
  if (owner === 'none') return denied(`no pod has the address ${destination}`);
  const { egress, ingress } = judge(objects, { from: source, to: destination, protocol, ...(port !== undefined && { port }) });
  const unclaimed = unclaimedAt(objects, packet);
  return { ...verdictOf(egress, ingress), ...(unclaimed !== undefined && { unclaimed }) };
}

interface ServedConnection {
  readonly asked: AskedService;
  readonly client: Client;
  readonly endpoint: Endpoint;
}

/** A node port is translated after the egress policies of a pod, which have decided about the address of the node. */
function servedMeaning(objects: ForwardedObjects, packet: ForwardedPacket, { asked, client, endpoint }: ServedConnection): Meaning {
  const { address, port } = endpoint;
  if (ownerOf(objects, address) === 'none') return denied(`no pod has the address ${address}`);
  const { protocol, source, destination } = packet;
  const connection = { to: address, protocol, port, throughService: true };
  const isTranslatedByNode = asked.node !== undefined && (asked.kind === 'nodePort' || client.node !== packet.node);
  if (!isTranslatedByNode) {
    const { egress, ingress } = judge(objects, { ...connection, from: sourceAtEndpoint(objects, client, address) });
    return verdictOf(egress, ingress);
  }
  const { egress } = judge(objects, { from: source, to: destination, protocol, ...(packet.port !== undefined && { port: packet.port }) });
  const { ingress } = judge(objects, { ...connection, from: sourceAtEndpoint(objects, client, address) });
  return verdictOf(egress, ingress);
}

/** An endpoint on another node sees the first address of the pod network of the node that translates, in place of a client outside. */
function sourceAtEndpoint({ nodes }: ForwardedObjects, { is, node, family, source }: Client, endpoint: string): string {
  const own = nodes.filter(({ metadata }) => metadata.name === node);
  const others = nodes.filter(({ metadata }) => metadata.name !== node);
  if (is !== 'external' || networkAround(own, endpoint) || !networkAround(others, endpoint)) return source;
  const network = own.flatMap(({ spec }) => (spec.podCIDRs ?? []).map(parseCidr)).find((each) => each.family === family);
  return network?.network.text ?? source;
}

type EndResult = ReturnType<typeof judge>['egress'];

function verdictOf(egress: EndResult, ingress: EndResult): Meaning {
  const ends = [
    { end: egress, direction: 'egress' },
    { end: ingress, direction: 'ingress' },
  ];
  const denying = ends.find(({ end }) => end?.verdict === 'deny');
  if (denying?.end) {
    const { decidedBy, isolatedBy, why } = denying.end;
    return { verdict: 'denied', why: `${denying.direction}: ${why}`, by: decidedBy === undefined ? isolatedBy : [decidedBy] };
  }
  const by = ends.flatMap(({ end }) => (end?.decidedBy === undefined ? (end?.allowedBy ?? []) : [end.decidedBy]));
  return { verdict: 'allowed', why: by.length > 0 ? 'rules allow it' : 'no policy isolates an end', by };
}

function ownerOf({ pods, nodes }: ForwardedObjects, address: string): 'pod' | 'none' | 'other' {
  if (pods.some((pod) => hasAddress(pod, address))) return 'pod';
  const ip = parseIp(address);
  const inside = networkAround(nodes, address);
  // The first addresses of a pod network belong to its node.
  const isNode = inside !== undefined && ip.value - inside.network.value <= 1n;
  return inside && !isNode ? 'none' : 'other';
}

function hasAddress({ status: { phase, podIPs } }: PodObject, address: string): boolean {
  return phase !== 'Succeeded' && phase !== 'Failed' && (podIPs ?? []).some(({ ip }) => isSame(ip, address));
}
