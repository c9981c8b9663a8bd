import { digests } from '../../base/bytes/digest.ts';
import { addressBits, type Cidr, hostCidr, type Ip } from '../../base/net/ip.ts';
import { nothing, type Wanted } from '../../dataplane/desired/host-entries.ts';
import { type Owner, ownerOf } from '../../dataplane/pipeline/cookie.ts';
import { reg } from '../../dataplane/pipeline/fields.ts';
import { type Flow, load, type Match, priority, resubmit, type Step } from '../../dataplane/pipeline/flow.ts';
import type { Mark } from '../../dataplane/pipeline/registers.ts';
import type { ProxyNode } from './proxy-config.ts';

/** Ranges of a Service in one family, as its ports reference them in table `sourceRangeSets`. */
interface RangeSet {
  readonly owner: Owner;
  /** 64 bits of a SHA-256 of the ranges: a user cannot choose ranges that have the number of another Service's. */
  readonly number: readonly Mark[];
}

/** Sets by list, which all ports of a Service share. */
const sets = new WeakMap<readonly Cidr[], RangeSet>();

export function rangeSetOf(ranges: readonly Cidr[]): RangeSet {
  const known = sets.get(ranges) ?? rangeSet(ranges);
  sets.set(ranges, known);
  return known;
}

function rangeSet(ranges: readonly Cidr[]): RangeSet {
  const texts = ranges.map((range) => range.text).sort();
  const digest = digests.hex(texts.map((text) => `${text}\n`).join(''));
  const word = (at: number): number => Number.parseInt(digest.slice(8 * at, 8 * at + 8), 16);
  return {
    owner: ownerOf('service', `source-ranges:${digest.slice(0, 16)}`),
    number: [reg.sourceRangesHigh(word(0)), reg.sourceRangesLow(word(1))],
  };
}

/** Steps that check the ranges: packets from other sources are dropped there. */
export function toRangeSet(ranges: readonly Cidr[]): readonly Step[] {
  return [...rangeSetOf(ranges).number.map(load), { do: 'goto', table: 'sourceRangeSets' }];
}

/**
 * Compiles the sources admitted to load balancers' addresses of Services with these ranges, of one family. The node itself is admitted if
 * one of its addresses is: its packets have the gateway's here. One flow for each range, for all ports and Services that have it. Pure.
 */
export function compileSourceRanges(ranges: readonly Cidr[], { addresses, gateway }: Pick<ProxyNode, 'addresses' | 'gateway'>): Wanted {
  const [first] = ranges;
  if (first === undefined) return nothing;
  const { number } = rangeSetOf(ranges);
  const own = ofFamily(addresses, first.family).some(isInOneOf(ranges)) ? ofFamily(gateway, first.family) : [];
  const allowed = new Map([...ranges, ...own.map(hostCidr)].map((range) => [range.text, range]));
  return { ...nothing, flows: [...allowed.values()].map((range) => allow(range, number)) };
}

/**
 * Returns a test for membership. Both lists may be long: it does one lookup for each prefix length instead of a comparison with each range.
 */
function isInOneOf(ranges: readonly Cidr[]): (ip: Ip) => boolean {
  const networks = new Map<number, Set<bigint>>();
  for (const { family, prefixLength, network } of ranges) {
    const hostBits = addressBits(family) - prefixLength;
    networks.set(hostBits, (networks.get(hostBits) ?? new Set()).add(network.value >> BigInt(hostBits)));
  }
  return ({ value }) => [...networks].some(([hostBits, known]) => known.has(value >> BigInt(hostBits)));
}

function ofFamily(ips: readonly Ip[], family: Ip['family']): readonly Ip[] {
  return ips.filter((ip) => ip.family === family);
}

function allow(range: Cidr, number: readonly Mark[]): Flow {
  const match: Match = { payload: range.family, regs: number };
  return {
    table: 'sourceRangeSets',
    priority: priority.normal,
    // OVS drops a match with an empty mask, and would not report it as it was written.
    match: range.prefixLength === 0 ? match : { ...match, ipSrc: range },
    steps: [resubmit('affinity'), resubmit('balance')],
  };
}
