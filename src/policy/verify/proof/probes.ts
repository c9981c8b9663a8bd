import { addressBits, type Cidr, ipFromValue, isIp, parseCidr, parseIp } from '../../../base/net/ip.ts';
import type { PolicyObjects, PolicyRuleObject } from '../reference/objects.ts';

const portProtocols = ['TCP', 'UDP', 'SCTP'] as const;

/** Somebody whom no policy can mean: an address of each family for documentation (RFC 5737, RFC 3849). */
const strangers = ['198.51.100.77', '2001:db8:ffff::77'];

/**
 * The addresses at which anything that policies say begins or ends: all pods' and nodes', and of each network that is named the first
 * and the last one in it and the two beside it. Canonical texts.
 */
export function probedAddresses({ pods, nodes, networkPolicies }: PolicyObjects, more: Iterable<string> = []): readonly string[] {
  const found = new Set<string>([...strangers, ...more]);
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
  return [...found];
}

function blocksOf(rule: PolicyRuleObject) {
  return [...(rule.from ?? []), ...(rule.to ?? [])].flatMap(({ ipBlock }) => (ipBlock ? [ipBlock] : []));
}

/** With the second, which is the gateway's where the network is a node's. */
function edgesOf({ family, network, prefixLength }: Cidr): readonly string[] {
  const size = 1n << BigInt(addressBits(family) - prefixLength);
  const limit = 1n << BigInt(addressBits(family));
  return [network.value - 1n, network.value, network.value + 1n, network.value + size - 1n, network.value + size]
    .filter((value) => value >= 0n && value < limit)
    .map((value) => ipFromValue(family, value).text);
}

/** Ports by protocol at which something begins, or has just ended; always 0. */
export type PortBoundaries = Readonly<Record<string, readonly number[]>>;

/** Where rules of these policies begin and end, and where they name ports, those of `destination` too: on it names are looked up. */
export function portBoundaries(
  policies: PolicyObjects['networkPolicies'],
  destination: PolicyObjects['pods'][number] | undefined,
): PortBoundaries {
  const found = Object.fromEntries(portProtocols.map((protocol) => [protocol, new Set([0])]));
  const add = (protocol = 'TCP', first = 0, last = first): void => {
    found[protocol]?.add(first);
    if (last < 65_535) found[protocol]?.add(last + 1);
  };
  for (const { protocol, port, endPort } of portsOf(policies)) if (typeof port === 'number') add(protocol, port, endPort);
  if (destination && namesPorts(policies))
    for (const { ports } of [...destination.spec.containers, ...(destination.spec.initContainers ?? [])])
      for (const { protocol, containerPort } of ports ?? []) add(protocol, containerPort);
  return Object.fromEntries(Object.entries(found).map(([protocol, ports]) => [protocol, [...ports].toSorted((a, b) => a - b)]));
}

export function namesPorts(policies: PolicyObjects['networkPolicies']): boolean {
  return portsOf(policies).some(({ port }) => typeof port === 'string');
}

function portsOf(policies: PolicyObjects['networkPolicies']) {
  return policies.flatMap(({ spec }) => [...(spec.ingress ?? []), ...(spec.egress ?? [])]).flatMap(({ ports }) => ports ?? []);
}
