import { addressBits, type Cidr, type Family, type Ip } from './ip.ts';

/**
 * Returns a function like that of `containedIn`, but for thousands of networks: the work for an address grows only with the number of
 * prefix lengths.
 */
export function containedInMany(networks: readonly Cidr[]): (ip: Ip) => boolean {
  const byLength: Readonly<Record<Family, Map<number, Set<bigint>>>> = { ipv4: new Map(), ipv6: new Map() };
  for (const { family, prefixLength, network } of networks) {
    const hostBits = addressBits(family) - prefixLength;
    const starts = byLength[family].get(hostBits) ?? new Set();
    byLength[family].set(hostBits, starts.add(network.value >> BigInt(hostBits)));
  }
  return ({ family, value }) => {
    for (const [hostBits, starts] of byLength[family]) if (starts.has(value >> BigInt(hostBits))) return true;
    return false;
  };
}

/** Values by network: the work to find those of an address grows only with the number of prefix lengths. */
export class NetworkMap<T> {
  readonly #byLength: Readonly<Record<Family, Map<bigint, Map<bigint, T[]>>>> = { ipv4: new Map(), ipv6: new Map() };

  add({ family, prefixLength, network }: Cidr, value: T): void {
    const hostBits = BigInt(addressBits(family) - prefixLength);
    const byStart = this.#byLength[family].get(hostBits) ?? new Map<bigint, T[]>();
    this.#byLength[family].set(hostBits, byStart);
    const start = network.value >> hostBits;
    const known = byStart.get(start);
    if (known) known.push(value);
    else byStart.set(start, [value]);
  }

  /** Returns the values of all networks that contain the address. */
  at({ family, value }: Pick<Ip, 'family' | 'value'>): readonly T[] {
    return [...this.#byLength[family]].flatMap(([hostBits, byStart]) => byStart.get(value >> hostBits) ?? []);
  }
}

/** Returns a function that reports whether a network overlaps any of `networks`, without comparing it with each. */
export function overlapsAny(networks: readonly Cidr[]): (network: Cidr) => boolean {
  const startsInNetworks = containedInMany(networks);
  const starts: Readonly<Record<Family, readonly bigint[]>> = {
    ipv4: startsOf('ipv4', networks),
    ipv6: startsOf('ipv6', networks),
  };
  return ({ family, network, prefixLength }) => {
    // Of two networks that overlap, one contains the first address of the other.
    if (startsInNetworks(network)) return true;
    const next = starts[family][firstFrom(starts[family], network.value)];
    return next !== undefined && next < network.value + (1n << BigInt(addressBits(family) - prefixLength));
  };
}

function startsOf(family: Family, networks: readonly Cidr[]): readonly bigint[] {
  return networks.flatMap((each) => (each.family === family ? each.network.value : [])).sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

/** Returns the index of the first number that is not below `value`. */
function firstFrom(sorted: readonly bigint[], value: bigint): number {
  let [from, to] = [0, sorted.length];
  while (from < to) {
    const middle = (from + to) >> 1;
    if ((sorted[middle] ?? value) < value) from = middle + 1;
    else to = middle;
  }
  return from;
}
