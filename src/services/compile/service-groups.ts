import { ipToBytes } from '../../base/net/ip.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import type { Bits, Bucket, Group, StepsPattern } from '../../dataplane/pipeline/flow.ts';
import { load, PatternBucket, resubmit } from '../../dataplane/pipeline/flow.ts';
import { fnv1a } from '../../dataplane/pipeline/fnv-1a.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { ServiceEndpoint, ServiceIntent } from './service-intent.ts';
import { translateTo } from './translation.ts';

/**
 * Maximum number of hash values that Open vSwitch 3.1 gives a `dp_hash` group; with more buckets it hashes every connection in the slow
 * path.
 */
const slotsMost = 256;
const slotsLeast = 64;
/** Minimum number of slots per endpoint: with fewer, shares of up to 64 endpoints would differ by more than 1.3. */
const slotsEach = 4;
/** Weight of each bucket. Any number that leaves room for a small balancing bucket. */
const weightEach = 400;

/** Group with the source ports that it is for; all of them if it is the only one. */
export interface ServiceGroup {
  readonly group: Group;
  readonly sourcePorts?: Bits;
}

/**
 * Returns the groups that distribute connections over `endpoints`, of which there are at least two.
 *
 * @param groupId returns the number of the group of that name
 * @param stepsFor returns a bucket's steps for its endpoint, as a pattern: the same one for all endpoints without special treatment
 */
export function groupsFor(
  endpoints: readonly ServiceEndpoint[],
  groupId: (part: number) => number,
  stepsFor: (endpoint: ServiceEndpoint) => StepsPattern,
): readonly ServiceGroup[] {
  return partsOf(endpoints).map(({ members, sourcePorts }, part) => ({
    group: { id: groupId(part), buckets: evenBuckets(members, stepsFor) },
    ...(sourcePorts && { sourcePorts }),
  }));
}

/**
 * Returns the bucket of an endpoint. A bucket is an action set: of several resubmits only the last is executed, and a lone `ct` is executed
 * after all loads.
 */
export function bucketFor({ affinitySeconds, translation }: Pick<ServiceIntent, 'affinitySeconds' | 'translation'>): StepsPattern {
  if (translation === 'bucket') return translates;
  // With affinity too: a client's choice is learned. If it depended on the client's address, it would get the same endpoint again after its
  // timeout.
  return affinitySeconds === undefined ? chooses : learns;
}

const translates: StepsPattern = (endpoint) => [translateTo(endpoint)];

const chooses: StepsPattern = (endpoint) => [...choiceOf(endpoint, 'chosen').map(load), resubmit('dnat')];

/**
 * Steps that learn the choice. `affinity` is looked up again, then `balance`: the data path may have hashed this connection by a decision
 * that it cached before the client was known.
 */
const learns: StepsPattern = (endpoint) => [...choiceOf(endpoint, 'learn').map(load), resubmit('sourceRanges')];

/**
 * Returns buckets with equal shares. Open vSwitch gives a group as many hash slots as its smallest weight needs, which for nine equal
 * buckets are 16: two endpoints would get half of what the others get. A second bucket of small weight for the first endpoint increases the
 * number of slots.
 */
function evenBuckets(members: readonly ServiceEndpoint[], stepsFor: (endpoint: ServiceEndpoint) => StepsPattern): readonly Bucket[] {
  const bucket = (weight: number, endpoint: ServiceEndpoint): Bucket => new PatternBucket(weight, stepsFor(endpoint), endpoint);
  const [first] = members;
  const balancingBucket = Math.ceil((members.length * weightEach) / slotsOf(members.length));
  // With more than half as many endpoints as slots, they need all slots without an additional bucket.
  if (first === undefined || balancingBucket > weightEach / 2) return members.map((each) => bucket(weightEach, each));
  const buckets = members.map((each, at) => bucket(at === 0 ? weightEach - balancingBucket : weightEach, each));
  return [...buckets, bucket(balancingBucket, first)];
}

/** Returns a power of two. */
export function slotsOf(endpoints: number): number {
  return Math.min(slotsMost, Math.max(slotsLeast, slotsEach * 2 ** Math.ceil(Math.log2(Math.max(1, endpoints)))));
}

interface GroupPart {
  readonly members: readonly ServiceEndpoint[];
  readonly sourcePorts?: Bits;
}

/** Maximum average number of endpoints per part: above it, a part could exceed what a group supports. */
const membersOnAverage = 160;
/** Lowest bit of the source port that distinguishes parts. Not bit 0: Linux connects from even ports only. */
const firstBit = 1;

/**
 * Distributes endpoints over groups. The group of an endpoint depends only on the endpoint, so that one that is added or removed changes
 * one group.
 */
function partsOf(endpoints: readonly ServiceEndpoint[]): readonly GroupPart[] {
  if (endpoints.length <= slotsMost) return [{ members: endpoints }];
  const bits = Math.ceil(Math.log2(endpoints.length / membersOnAverage));
  const parts = split(endpoints, bits, (endpoint) => hashOf(endpoint) >>> (32 - bits));
  if (parts.every((members) => members.length > 0 && members.length <= slotsMost)) return withPorts(parts, bits);
  // Not seen yet, but addresses can be chosen so that their hashes are alike.
  return withPorts(
    split(endpoints, bits, (_, at) => at % 2 ** bits),
    bits,
  );
}

function split(
  endpoints: readonly ServiceEndpoint[],
  bits: number,
  partOf: (endpoint: ServiceEndpoint, at: number) => number,
): readonly ServiceEndpoint[][] {
  const parts = Array.from({ length: 2 ** bits }, (): ServiceEndpoint[] => []);
  for (const [at, endpoint] of endpoints.entries()) parts[partOf(endpoint, at)]?.push(endpoint);
  return parts;
}

function withPorts(parts: readonly (readonly ServiceEndpoint[])[], bits: number): readonly GroupPart[] {
  const mask = (2 ** bits - 1) << firstBit;
  return parts.map((members, at) => ({ members, sourcePorts: { value: at << firstBit, mask } }));
}

/** Returns FNV-1a of address and port, with MurmurHash3's final mixing: neighbouring addresses must not share their high bits. */
function hashOf({ ip, port }: ServiceEndpoint): number {
  let hash = fnv1a([...ipToBytes(ip), port >>> 8, port & 0xff]);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return (hash ^ (hash >>> 16)) >>> 0;
}

/** Registers after an endpoint was chosen. */
export function choiceOf({ ip, port }: ServiceEndpoint, state: 'chosen' | 'learn'): readonly Mark[] {
  return [...endpointMarks({ ip, port }), reg.endpointPort(port), reg.serviceState(state)];
}

function endpointMarks({ ip }: ServiceEndpoint): readonly Mark[] {
  if (ip.family === 'ipv4') return [reg.endpointIpv4(Number(ip.value))];
  const view = new DataView(ipToBytes(ip).buffer);
  return [
    reg.endpointIpv6a(view.getUint32(0)),
    reg.endpointIpv6b(view.getUint32(4)),
    reg.endpointIpv6c(view.getUint32(8)),
    reg.endpointIpv6d(view.getUint32(12)),
  ];
}
