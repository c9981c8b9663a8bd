import type { EndpointSlice } from '../kube/endpoint-slice.ts';
import type { ServicePort as KubeServicePort, Service } from '../kube/service.ts';
import { cidrContains, type Family, type Ip, parseIp } from '../net/ip.ts';
import { isSpecial } from '../net/special-ranges.ts';
import type { Transport } from '../pipeline/flow.ts';
import { virtualRanges } from '../pipeline/well-known.ts';
import { byAddress, type Endpoint } from './compile-service.ts';

/** One port of a Service on one of its addresses, with where it leads. */
export interface ServicePortIntent {
  /** Unique within the Service: `NAME` or `PORT/PROTOCOL` for an unnamed port, with the family. */
  readonly name: string;
  readonly transport: Transport;
  readonly clusterIp: Ip;
  readonly port: number;
  /** Sorted by address, each once; of more than `mostEndpoints`, the first. */
  readonly endpoints: readonly Endpoint[];
  /** What of the Service is not served as it says, a sentence each. */
  readonly objections: readonly string[];
}

/**
 * Open vSwitch takes larger groups piece by piece, but describes a group in one message of 64 KiB, wrongly if it is larger: what
 * cannot be read back cannot be kept as wanted. A bucket takes 80 bytes for an IPv4 endpoint and 128 for an IPv6 one.
 */
const mostEndpoints: Readonly<Record<Family, number>> = { ipv4: 800, ipv6: 500 };

const transports = { TCP: 'tcp', UDP: 'udp' } as const;

/** A Service that nobody asks this proxy to serve: no cluster address, or somebody else's by label. */
export function isServed(service: Service): boolean {
  return service.type !== 'ExternalName' && service.clusterIps.length > 0 && service.proxyName === undefined && !service.headlessLabel;
}

/**
 * What a Service and its EndpointSlices come to. Pure.
 *
 * @param slices all of the Service's, in any order; an endpoint that moves between slices may be in two of them
 */
export function serviceIntents(service: Service, slices: readonly EndpointSlice[]): readonly ServicePortIntent[] {
  if (!isServed(service)) return [];
  return onePerFamily(service.clusterIps.map(parseIp)).flatMap((clusterIp) =>
    service.ports.flatMap((port): ServicePortIntent[] => {
      // The userspace data path cannot tell SCTP ports apart; SCTP comes with the complete proxy.
      if (port.protocol === 'SCTP') return [];
      const found = endpointsOf(slices, port, { family: clusterIp.family, publishNotReady: service.publishNotReadyAddresses });
      const most = mostEndpoints[clusterIp.family];
      return [
        {
          name: `${port.name || `${port.port}-${port.protocol.toLowerCase()}`}/${clusterIp.family}`,
          transport: transports[port.protocol],
          clusterIp,
          port: port.port,
          endpoints: found.endpoints.slice(0, most),
          objections: [
            ...(found.endpoints.length > most
              ? [`port ${port.port} has ${found.endpoints.length} endpoints, the first ${most} are served`]
              : []),
            ...(found.refused.length > 0
              ? [`port ${port.port}: no packets are sent to ${found.refused.length} endpoints such as ${found.refused[0]}`]
              : []),
          ],
        },
      ];
    }),
  );
}

/** More are not possible in Kubernetes; names of ports would not be unique. */
function onePerFamily(ips: readonly Ip[]): readonly Ip[] {
  return ips.filter(({ family }, at) => ips.findIndex((other) => other.family === family) === at);
}

interface FoundEndpoints {
  readonly endpoints: readonly Endpoint[];
  /** Addresses that are nobody's in a cluster. */
  readonly refused: readonly string[];
}

/**
 * Ready endpoints; if there are none, those that still serve while they terminate (KEP-1669).
 *
 * Who may write EndpointSlices could reach what a pod cannot, from every node's own stack: its loopback, the metadata service of
 * its cloud. The API server refuses such addresses (`ValidateNonSpecialIP`), but not in objects that are older than the check.
 */
function endpointsOf(slices: readonly EndpointSlice[], port: KubeServicePort, want: EndpointsWanted): FoundEndpoints {
  const found = slices.filter(({ family }) => family === want.family).map((slice) => inSlice(slice, port, want, slices.length > fewSlices));
  const ready = inOrder(found.map((each) => each.ready));
  return {
    endpoints: ready.length > 0 ? ready : inOrder(found.map((each) => each.leaving)),
    refused: [...new Set(found.flatMap((each) => each.refused))],
  };
}

interface EndpointsWanted {
  readonly family: Family;
  readonly publishNotReady: boolean;
}

/** What one slice says of one port, in order of address. */
interface SliceEndpoints {
  readonly ready: readonly Endpoint[];
  readonly leaving: readonly Endpoint[];
  readonly refused: readonly string[];
}

/**
 * A Service with more slices than this changes slice by slice, and reading all the others again would take the agent a second for
 * 100,000 endpoints. For the many small ones it is not worth the memory.
 */
const fewSlices = 4;
const known = new WeakMap<EndpointSlice, Map<string, SliceEndpoints>>();

function inSlice(slice: EndpointSlice, port: KubeServicePort, want: EndpointsWanted, remember: boolean): SliceEndpoints {
  if (!remember) return readSlice(slice, port, want);
  const byPort = known.get(slice) ?? new Map<string, SliceEndpoints>();
  known.set(slice, byPort);
  const key = `${want.publishNotReady} ${port.protocol} ${port.name}`;
  const there = byPort.get(key) ?? readSlice(slice, port, want);
  byPort.set(key, there);
  return there;
}

function readSlice(slice: EndpointSlice, port: KubeServicePort, { family, publishNotReady }: EndpointsWanted): SliceEndpoints {
  const ready: Endpoint[] = [];
  const leaving: Endpoint[] = [];
  const refused: string[] = [];
  const number = slice.ports.find(({ name, protocol }) => name === port.name && protocol === port.protocol)?.port;
  if (number === undefined) return { ready, leaving, refused };
  for (const { addresses, ready: isReady, serving, terminating } of slice.endpoints) {
    const [address] = addresses;
    const wanted = isReady || publishNotReady ? ready : serving && terminating ? leaving : undefined;
    if (address === undefined || wanted === undefined) continue;
    const ip = parseIp(address);
    if (ip.family === family && !isNobodys(ip)) wanted.push({ ip, port: number });
    else refused.push(address);
  }
  return { ready: ready.toSorted(byAddress), leaving: leaving.toSorted(byAddress), refused };
}

/** Each once: an endpoint that moves between slices may be in two of them. The lists are sorted, which makes sorting them cheap. */
function inOrder(lists: readonly (readonly Endpoint[])[]): readonly Endpoint[] {
  return lists
    .flat()
    .sort(byAddress)
    .filter((endpoint, at, all) => {
      const before = all[at - 1];
      return before === undefined || byAddress(before, endpoint) !== 0;
    });
}

function isNobodys(ip: Ip): boolean {
  return isSpecial(ip) || virtualRanges.some((range) => cidrContains(range, ip));
}
