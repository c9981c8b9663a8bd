import { digests } from '../../../base/bytes/digest.ts';
import { addressBits, type Cidr, cidrContains, type Family } from '../../../base/net/ip.ts';

/** Addresses of one network, except those of networks within it. */
export interface PeerBlock {
  readonly cidr: Cidr;
  readonly except: readonly Cidr[];
}

/** Network at which more blocks begin than exceptions, or the other way round. */
interface Edge {
  readonly cidr: Cidr;
  by: number;
}

interface EnclosingNetwork {
  readonly lastValue: bigint;
  /** Number of blocks that contain the network. */
  readonly count: number;
  readonly block: { readonly cidr: Cidr; readonly except: Cidr[] } | undefined;
}

/**
 * Returns the union of blocks as disjoint blocks, sorted by address. A rule with many networks only distinguishes addresses that are in one
 * of them from addresses that are in none.
 */
export function blockUnion(blocks: readonly PeerBlock[]): readonly PeerBlock[] {
  const edges = edgesOf(blocks);
  return [...unionOf('ipv4', edges), ...unionOf('ipv6', edges)];
}

/** Text of a union: equal for equal unions, and short whatever the size. */
export function unionText(union: readonly PeerBlock[]): string {
  const texts = union.map(blockText);
  const [only] = texts;
  if (only !== undefined && texts.length === 1) return `block ${only}`;
  return `${texts.length} blocks ${digests.base64url(texts.join('\n'))}`;
}

/** Text of a block, such as `10.0.0.0/8 -10.1.0.0/16`. */
export function blockText({ cidr, except }: PeerBlock): string {
  return [cidr.text, ...except.map(({ text }) => `-${text}`)].join(' ');
}

function edgesOf(blocks: readonly PeerBlock[]): ReadonlyMap<string, Edge> {
  const edges = new Map<string, Edge>();
  const add = (cidr: Cidr, by: 1 | -1): void => {
    const known = edges.get(cidr.text);
    if (known) known.by += by;
    else edges.set(cidr.text, { cidr, by });
  };
  for (const { cidr, except } of blocks) {
    if (except.some((each) => isWithin(cidr, each))) continue;
    add(cidr, 1);
    for (const each of outermost(except.filter((inner) => isWithin(inner, cidr)))) add(each, -1);
  }
  return edges;
}

/** Drops networks that lie within others of the list. */
function outermost(cidrs: readonly Cidr[]): readonly Cidr[] {
  const found: Cidr[] = [];
  for (const each of cidrs.toSorted(byAddress)) {
    const last = found.at(-1);
    if (!(last && isWithin(each, last))) found.push(each);
  }
  return found;
}

function unionOf(family: Family, edges: ReadonlyMap<string, Edge>): readonly PeerBlock[] {
  const own = [...edges.values()].filter(({ cidr, by }) => cidr.family === family && by !== 0);
  const union: PeerBlock[] = [];
  const open: EnclosingNetwork[] = [];
  for (const { cidr, by } of own.sort((a, b) => byAddress(a.cidr, b.cidr))) {
    while ((open.at(-1)?.lastValue ?? cidr.network.value) < cidr.network.value) open.pop();
    const around = open.at(-1);
    const count = (around?.count ?? 0) + by;
    open.push({ lastValue: lastValueOf(cidr), count, block: blockAt(cidr, count, around, union) });
  }
  return union;
}

/** Returns the block of the union to which a network belongs. The block may begin or end at this network. */
function blockAt(cidr: Cidr, count: number, around: EnclosingNetwork | undefined, union: PeerBlock[]): EnclosingNetwork['block'] {
  const outer = around?.block;
  if (count === 0) {
    outer?.except.push(cidr);
    return undefined;
  }
  if (outer) return outer;
  const begun = { cidr, except: [] };
  union.push(begun);
  return begun;
}

function lastValueOf({ family, network, prefixLength }: Cidr): bigint {
  return network.value + (1n << BigInt(addressBits(family) - prefixLength)) - 1n;
}

function isWithin(inner: Cidr, outer: Cidr): boolean {
  return inner.prefixLength >= outer.prefixLength && cidrContains(outer, inner.network);
}

/** Sorts by address. If two networks begin at the same address, the larger one comes first. */
export function byAddress(a: Cidr, b: Cidr): number {
  if (a.network.value === b.network.value) return a.prefixLength - b.prefixLength;
  return a.network.value < b.network.value ? -1 : 1;
}
