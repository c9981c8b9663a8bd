import { containedIn, type Family, type Ip, parseIp } from '../../base/net/ip.ts';
import { type SliceEndpoint, unpackEndpoints } from '../../base/net/packed-endpoints.ts';
import { specialRanges } from '../../base/net/special-ranges.ts';
import { virtualRanges } from '../../dataplane/pipeline/well-known.ts';
import type { EndpointSlice } from '../../kubernetes/resources/endpoint-slice.ts';
import type { ServicePort } from '../../kubernetes/resources/service.ts';
import { byAddress, type ServiceEndpoint } from './service-intent.ts';

/** Endpoint with the properties that decide whether it is used. */
export interface Candidate extends ServiceEndpoint {
  readonly ready: boolean;
  /** True if it serves although it terminates: used only if no endpoint is ready (KEP-1669). */
  readonly leaving: boolean;
  readonly nodeName?: string;
  readonly zoneHints?: readonly string[];
  readonly nodeHints?: readonly string[];
}

interface Candidates {
  /** Sorted by address, without duplicates. */
  readonly all: readonly Candidate[];
  /** Addresses that no endpoint of a cluster can have. */
  readonly refused: readonly string[];
}

interface EndpointsWanted {
  readonly port: Pick<ServicePort, 'name' | 'protocol'>;
  readonly family: Family;
  /** `publishNotReadyAddresses`: every endpoint counts as ready. */
  readonly publishNotReady: boolean;
}

/**
 * Maximum number of slices of a Service that are read as a whole. A larger Service is updated slice by slice: reading all others again
 * would take the agent a second for 100,000 endpoints. For the many small ones, caching is not worth the memory.
 */
const fewSlices = 4;
const known = new WeakMap<EndpointSlice, Map<string, Candidates>>();

/**
 * Returns the endpoints of one port of a Service, in its slices of one family. An endpoint that moves between slices may be in two of them.
 */
export function candidatesOf(slices: readonly EndpointSlice[], want: EndpointsWanted): Candidates {
  const [first] = slices;
  if (first && slices.length === 1) {
    const { all, refused } = first.family === want.family ? readSlice(first, want) : { all: [], refused: [] };
    return { all: eachOnce(all), refused };
  }
  const found = slices
    .filter(({ family }) => family === want.family)
    .map((slice) => (slices.length > fewSlices ? remembered(slice, want) : readSlice(slice, want)));
  const [only] = found;
  if (only && found.length === 1) return { all: eachOnce(only.all), refused: only.refused };
  // The lists are sorted, which makes sorting them cheap.
  const all = eachOnce(found.flatMap((each) => each.all).sort(byAddress));
  return { all, refused: [...new Set(found.flatMap((each) => each.refused))] };
}

function remembered(slice: EndpointSlice, want: EndpointsWanted): Candidates {
  const byPort = known.get(slice) ?? new Map<string, Candidates>();
  known.set(slice, byPort);
  const key = `${want.publishNotReady} ${want.port.protocol} ${want.port.name}`;
  const there = byPort.get(key) ?? readSlice(slice, want);
  byPort.set(key, there);
  return there;
}

/**
 * Reads one slice. A user who may write EndpointSlices could otherwise make every node's own stack connect to addresses that a pod cannot
 * reach: its loopback, its cloud's metadata service. The API server refuses such addresses (`ValidateNonSpecialIP`), except in objects that
 * are older than the check.
 */
function readSlice(slice: EndpointSlice, { port, family, publishNotReady }: EndpointsWanted): Candidates {
  const all: Candidate[] = [];
  const refused: string[] = [];
  const number = portNumberIn(slice, port);
  if (number === undefined) return { all, refused };
  for (const endpoint of unpackEndpoints(slice.endpoints)) {
    const [address] = endpoint.addresses;
    if (address === undefined) continue;
    const ip = parseIp(address);
    if (ip.family === family && !isUnroutable(ip)) all.push(candidate(ip, number, endpoint, publishNotReady));
    else refused.push(address);
  }
  return { all: isAscending(all) ? all : all.sort(byAddress), refused };
}

/** Maximum number of ports for which a slice is searched linearly. */
const fewPorts = 8;
const portNumbers = new WeakMap<EndpointSlice, ReadonlyMap<string, number>>();

/** Returns the number that a slice has for a port of its Service; `undefined` if it does not have that port. */
export function portNumberIn(slice: EndpointSlice, { name, protocol }: Pick<ServicePort, 'name' | 'protocol'>): number | undefined {
  if (slice.ports.length <= fewPorts) return slice.ports.find((port) => port.name === name && port.protocol === protocol)?.port;
  const numbers = portNumbers.get(slice) ?? numbersOf(slice);
  portNumbers.set(slice, numbers);
  return numbers.get(`${protocol} ${name}`);
}

function numbersOf({ ports }: EndpointSlice): ReadonlyMap<string, number> {
  const numbers = new Map<string, number>();
  for (const { name, protocol, port } of ports) {
    const key = `${protocol} ${name}`;
    if (port !== undefined && !numbers.has(key)) numbers.set(key, port);
  }
  return numbers;
}

/** Reports whether the list is sorted and has no duplicates. */
function isAscending(all: readonly Candidate[]): boolean {
  for (let at = 1; at < all.length; at++) {
    const [before, each] = [all[at - 1], all[at]];
    if (before && each && byAddress(before, each) >= 0) return false;
  }
  return true;
}

/** Creates a candidate. Written out for speed, for there are many. */
function candidate(ip: Ip, port: number, endpoint: SliceEndpoint, publishNotReady: boolean): Candidate {
  const { serving, terminating, nodeName, zoneHints, nodeHints } = endpoint;
  const [ready, leaving] = [endpoint.ready || publishNotReady, serving && terminating];
  const plain: Candidate = nodeName === undefined ? { ip, port, ready, leaving } : { ip, port, ready, leaving, nodeName };
  return zoneHints || nodeHints ? { ...plain, ...(zoneHints && { zoneHints }), ...(nodeHints && { nodeHints }) } : plain;
}

/**
 * Removes duplicates. Two slices that disagree are of different age, and it is unknown which is newer: an endpoint that is ready in one of
 * them is used.
 */
function eachOnce(sorted: readonly Candidate[]): readonly Candidate[] {
  if (isAscending(sorted)) return sorted;
  const once: Candidate[] = [];
  for (const each of sorted) {
    const before = once.at(-1);
    if (before === undefined || byAddress(before, each) !== 0) once.push(each);
    else if (rank(each) > rank(before)) once[once.length - 1] = each;
  }
  return once;
}

function rank({ ready, leaving }: Candidate): number {
  if (ready) return 2;
  return leaving ? 1 : 0;
}

/** Reports whether an address is special to every host, or to this bridge, and can belong to no endpoint of a cluster. */
export const isUnroutable = containedIn([...specialRanges, ...virtualRanges]);
