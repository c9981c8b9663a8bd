import { addressBits, type Cidr, cidrContains, cidrOf, ipFromValue, overlaps, parseCidr } from '../../base/net/ip.ts';

/** Networks that one block may become. */
export const NETWORKS_MAX = 625;

/**
 * Returns networks that together are a network without others, in the order of their addresses.
 *
 * @throws SeineError `INVALID_INPUT` for text that is not a network
 */
export function networksWithout(cidr: string, except: readonly string[]): readonly string[] {
  return split(parseCidr(cidr), except.map(parseCidr)).map(({ text }) => text);
}

function split(cidr: Cidr, except: readonly Cidr[]): readonly Cidr[] {
  const inside = except.filter((each) => overlaps(each, cidr));
  if (inside.length === 0) return [cidrOf(cidr.network, cidr.prefixLength)];
  if (inside.some((each) => each.prefixLength <= cidr.prefixLength && cidrContains(each, cidr.network))) return [];
  const [low, high] = halvesOf(cidr);
  return [...split(low, inside), ...split(high, inside)];
}

function halvesOf({ family, network, prefixLength }: Cidr): readonly [Cidr, Cidr] {
  const longer = prefixLength + 1;
  const size = 1n << BigInt(addressBits(family) - longer);
  return [cidrOf(network, longer), cidrOf(ipFromValue(family, network.value + size), longer)];
}
