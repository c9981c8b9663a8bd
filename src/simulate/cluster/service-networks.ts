import { addressBits, type Cidr, cidrOf, type Family, type Ip, overlaps, parseCidr, parseIp } from '../../base/net/ip.ts';
import type { SimulatedObjects } from '../objects/cluster-objects.ts';

/**
 * Returns the networks of Service addresses, which no object names: the smallest one of each family that has all of them, unless it has
 * addresses of pods or nodes. Agents have it from their configuration.
 */
export function serviceNetworks({ services, nodes }: Pick<SimulatedObjects, 'services' | 'nodes'>): readonly Cidr[] {
  const addresses = services.flatMap(({ spec }) => (spec.clusterIPs ?? []).filter((text) => text !== 'None' && text !== '').map(parseIp));
  const others = nodes.flatMap(({ spec, status }) => [
    ...(spec.podCIDRs ?? []).map(parseCidr),
    ...status.addresses.flatMap(({ type, address }) => (type === 'InternalIP' ? [hostOf(parseIp(address))] : [])),
  ]);
  return (['ipv4', 'ipv6'] as const)
    .flatMap((family) => commonNetwork(addresses, family) ?? [])
    .filter((network) => !others.some((other) => overlaps(network, other)));
}

function hostOf(ip: Ip): Cidr {
  return cidrOf(ip, addressBits(ip.family));
}

function commonNetwork(addresses: readonly Ip[], family: Family): Cidr | undefined {
  const [first, ...others] = addresses.filter((ip) => ip.family === family);
  if (!first) return undefined;
  const differing = others.reduce((bits, { value }) => bits | (value ^ first.value), 0n);
  return cidrOf(first, addressBits(family) - (differing === 0n ? 0 : differing.toString(2).length));
}
