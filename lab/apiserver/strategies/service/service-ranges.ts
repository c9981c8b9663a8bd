import { type Cidr, cidrAddress, cidrContains, parseCidr, parseIp } from '../../../../src/base/net/ip.ts';
import { type ApiObject, keyOf } from '../../object/api-object.ts';
import type { ServiceRanges } from '../../resource/resource.ts';
import type { Store } from '../../store/store.ts';
import { holdings, type IpFamily } from './service-facts.ts';

export interface PortRange {
  readonly first: number;
  readonly last: number;
}

interface Range {
  readonly cidr: Cidr;
  /** Number of allocatable offsets; those below `dynamic` are used last, as they are reserved for addresses that users choose. */
  readonly size: bigint;
  readonly dynamic: bigint;
  next: bigint;
}

/** Key of the owning Service by canonical address and by `TCP/30080`. */
interface Holders {
  readonly addresses: ReadonlyMap<string, string>;
  readonly ports: ReadonlyMap<string, string>;
}

/**
 * Addresses and node ports of Services. Kept from the store's events, so a request that fails leaves nothing allocated, and a restart
 * rebuilds it from the Services themselves.
 */
export function trackServiceRanges(store: Store, cidrs: readonly string[], ports: PortRange): ServiceRanges {
  const holders = trackHolders(store);
  const ranges = new Map<IpFamily, Range>(cidrs.map(parseCidr).map((cidr) => [cidr.family === 'ipv4' ? 'IPv4' : 'IPv6', rangeOf(cidr)]));
  let nextPort = ports.first;
  return {
    families: Array.from(ranges.keys()),
    freeAddress: (family) => freeAddress(ranges.get(family), holders.addresses),
    refusedAddress: (address, family, key) => {
      const range = ranges.get(family);
      if (range === undefined || !cidrContains(range.cidr, parseIp(address)))
        return `the provided IP (${address}) is not in the valid range. The range of valid IPs is ${range?.cidr.text ?? 'empty'}`;
      const holder = holders.addresses.get(address);
      return holder === undefined || holder === key ? undefined : 'provided IP is already allocated';
    },
    freePort: (protocols, taken) => {
      for (let tries = ports.first; tries <= ports.last; tries++) {
        const port = nextPort;
        nextPort = port >= ports.last ? ports.first : port + 1;
        if (protocols.every((protocol) => !holders.ports.has(`${protocol}/${port}`) && !taken.has(`${protocol}/${port}`))) return port;
      }
      return undefined;
    },
    refusedPort: (port, protocol, key) => {
      if (port < ports.first || port > ports.last)
        return `provided port is not in the valid range. The range of valid ports is ${ports.first}-${ports.last}`;
      const holder = holders.ports.get(`${protocol}/${port}`);
      return holder === undefined || holder === key ? undefined : 'provided port is already allocated';
    },
  };
}

function trackHolders(store: Store): Holders {
  const addresses = new Map<string, string>();
  const ports = new Map<string, string>();
  const change = (service: ApiObject, action: 'hold' | 'release') => {
    const key = keyOf(service.metadata);
    const held = holdings(service);
    const pairs = [
      ...held.addresses.map((address) => [addresses, parseIp(address).text] as const),
      ...held.ports.map((port) => [ports, port] as const),
    ];
    for (const [holders, thing] of pairs) {
      if (action === 'hold') holders.set(thing, key);
      else if (holders.get(thing) === key) holders.delete(thing);
    }
  };
  for (const { object } of store.list('services')) change(object, 'hold');
  store.subscribe('services', ({ type, entry, previous }) => {
    if (previous !== undefined) change(previous.object, 'release');
    if (type !== 'DELETED') change(entry.object, 'hold');
  });
  return { addresses, ports };
}

const largestRange = 1n << 20n;

function rangeOf(cidr: Cidr): Range {
  const all = 1n << BigInt((cidr.family === 'ipv4' ? 32 : 128) - cidr.prefixLength);
  const size = all > largestRange ? largestRange : all;
  // KEP-3070: the first min(max(16, size/16), 256) offsets are the band for addresses that users choose.
  const band = size / 16n < 16n ? 16n : size / 16n > 256n ? 256n : size / 16n;
  const dynamic = band < size ? band : 1n;
  return { cidr, size, dynamic, next: dynamic };
}

/** Next-fit through the upper band, then through the lower; neither the first address nor, for IPv4, the last. */
function freeAddress(range: Range | undefined, taken: ReadonlyMap<string, string>): string | undefined {
  if (range === undefined) return undefined;
  const { cidr, size, dynamic } = range;
  const last = cidr.family === 'ipv4' && size > 2n ? size - 2n : size - 1n;
  for (let tries = dynamic; tries <= last; tries++) {
    const offset = range.next;
    range.next = offset >= last ? dynamic : offset + 1n;
    const address = cidrAddress(cidr, offset).text;
    if (!taken.has(address)) return address;
  }
  for (let offset = 1n; offset < dynamic; offset++) {
    const address = cidrAddress(cidr, offset).text;
    if (!taken.has(address)) return address;
  }
  return undefined;
}
