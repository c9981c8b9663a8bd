import { addressBits, type Cidr, ipFromValue, isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type {
  ClusterNetworkPolicyObject,
  ClusterPeerObject,
  ClusterProtocolObject,
  ClusterRuleObject,
  ClusterTransportObject,
  PolicyObjects,
  PolicyRuleObject,
} from '../reference/objects.ts';

const portProtocols = ['TCP', 'UDP', 'SCTP'] as const;

/** Addresses of external hosts: one documentation address of each family (RFC 5737, RFC 3849). */
const unknownAddresses = ['198.51.100.77', '2001:db8:ffff::77'];

/**
 * Returns the addresses at which the effect of a policy can change: those of all pods and nodes, and the first and last address of each
 * named network with the two adjacent ones. Canonical text.
 */
export function probedAddresses(
  { pods, nodes, networkPolicies, clusterNetworkPolicies = [] }: PolicyObjects,
  more: Iterable<string> = [],
): readonly string[] {
  const found = new Set<string>([...unknownAddresses, ...more]);
  const add = (text: string): void => {
    if (isIp(text)) found.add(parseIp(text).text);
  };
  for (const { status } of pods) for (const { ip } of status.podIPs ?? []) add(ip);
  for (const { status, spec } of nodes) {
    for (const { address } of status.addresses) add(address);
    for (const cidr of spec.podCIDRs ?? []) for (const edge of edgesOf(parseCidr(cidr))) found.add(edge);
  }
  for (const { spec } of networkPolicies)
    for (const block of [...(spec.ingress ?? []), ...(spec.egress ?? [])].flatMap(blocksOf))
      for (const cidr of [block.cidr, ...(block.except ?? [])]) for (const edge of edgesOf(parseCidr(cidr))) found.add(edge);
  for (const { networks = [] } of clusterNetworkPolicies.flatMap(peersOf))
    for (const cidr of networks) for (const edge of edgesOf(parseCidr(cidr))) found.add(edge);
  return [...found];
}

/** Returns the entries of `from` and `to`. */
export function peersOf({ spec }: ClusterNetworkPolicyObject): readonly ClusterPeerObject[] {
  return rulesOf(spec).flatMap(({ from, to }) => [...(from ?? []), ...(to ?? [])]);
}

function rulesOf({ ingress = [], egress = [] }: ClusterNetworkPolicyObject['spec']): readonly ClusterRuleObject[] {
  return [...ingress, ...egress];
}

function blocksOf(rule: PolicyRuleObject) {
  return [...(rule.from ?? []), ...(rule.to ?? [])].flatMap(({ ipBlock }) => (ipBlock ? [ipBlock] : []));
}

/** Includes the second address, which is the gateway in the network of a node. */
function edgesOf({ family, network, prefixLength }: Cidr): readonly string[] {
  const size = 1n << BigInt(addressBits(family) - prefixLength);
  const limit = 1n << BigInt(addressBits(family));
  return [network.value - 1n, network.value, network.value + 1n, network.value + size - 1n, network.value + size]
    .filter((value) => value >= 0n && value < limit)
    .map((value) => ipFromValue(family, value).text);
}

/** Boundaries of port ranges by protocol: first ports of ranges, and ports after their ends; always includes 0. */
type PortBoundaries = Readonly<Record<string, readonly number[]>>;

/**
 * Returns the boundaries of the rules' ports. If rules name ports, those of `destination` are included, because names are resolved there.
 */
export function portBoundaries(policies: ProvenPolicies, destination: PolicyObjects['pods'][number] | undefined): PortBoundaries {
  const found = Object.fromEntries(portProtocols.map((protocol) => [protocol, new Set([0])]));
  const add = (protocol = 'TCP', first = 0, last = first): void => {
    found[protocol]?.add(first);
    if (last < 65_535) found[protocol]?.add(last + 1);
  };
  for (const { protocol, port, endPort } of portsOf(policies.networkPolicies)) if (typeof port === 'number') add(protocol, port, endPort);
  for (const each of protocolsOf(policies))
    for (const protocol of portProtocols) {
      const { number = 0, range = { start: number, end: number } } = transportOf(each, protocol)?.destinationPort ?? {};
      add(protocol, range.start, range.end);
    }
  if (destination && namesPorts(policies))
    for (const { ports } of [...destination.spec.containers, ...(destination.spec.initContainers ?? [])])
      for (const { protocol, containerPort } of ports ?? []) add(protocol, containerPort);
  return Object.fromEntries(Object.entries(found).map(([protocol, ports]) => [protocol, [...ports].toSorted((a, b) => a - b)]));
}

/** Policies that may decide about pods of one namespace. */
export type ProvenPolicies = Pick<PolicyObjects, 'networkPolicies' | 'clusterNetworkPolicies'>;

export function namesPorts(policies: ProvenPolicies): boolean {
  const isNamed = portsOf(policies.networkPolicies).some(({ port }) => typeof port === 'string');
  return isNamed || protocolsOf(policies).some(({ destinationNamedPort }) => destinationNamedPort !== undefined);
}

function protocolsOf({ clusterNetworkPolicies = [] }: ProvenPolicies): readonly ClusterProtocolObject[] {
  return clusterNetworkPolicies.flatMap(({ spec }) => rulesOf(spec)).flatMap(({ protocols }) => protocols ?? []);
}

function transportOf(
  { tcp, udp, sctp }: ClusterProtocolObject,
  protocol: (typeof portProtocols)[number],
): ClusterTransportObject | undefined {
  return { TCP: tcp, UDP: udp, SCTP: sctp }[protocol];
}

function portsOf(policies: PolicyObjects['networkPolicies']) {
  return policies.flatMap(({ spec }) => [...(spec.ingress ?? []), ...(spec.egress ?? [])]).flatMap(({ ports }) => ports ?? []);
}
