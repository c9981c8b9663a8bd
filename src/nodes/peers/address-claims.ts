import { addressBits, type Cidr, type Family, overlaps } from '../../base/net/ip.ts';

/** Addresses that a Node object lists as its pods' or its tunnel's. */
export interface AddressClaim {
  readonly node: string;
  /** Time when the node joined, RFC 3339 in UTC; empty if unknown, which counts as the latest. */
  readonly since: string;
  readonly use: 'pods' | 'tunnel';
  readonly range: Cidr;
}

/** Addresses that no other node can have. */
export interface ReservedRange {
  readonly range: Cidr;
  /** Description for operators, e.g. `the Services' addresses`. */
  readonly what: string;
  /** Uses that the range excludes. A tunnel may end in the network of this node's own tunnel ends; pods must not be there. */
  readonly against: 'pods' | 'both';
}

/** Returns ranges that are in only one of two lists. */
export function differing<T extends { readonly range: Cidr }>(
  before: readonly T[],
  after: readonly T[],
  textOf: (each: T) => string,
): readonly Cidr[] {
  const [was, is] = [before, after].map((list) => new Map(list.map((each) => [textOf(each), each.range])));
  return [...(was ?? [])]
    .flatMap(([text, range]) => (is?.has(text) ? [] : range))
    .concat([...(is ?? [])].flatMap(([text, range]) => (was?.has(text) ? [] : range)));
}

/** Shortest accepted prefix of a node's pod network: with a shorter one the cluster would have room for only a few nodes. */
const shortestPrefix: Readonly<Record<Family, number>> = { ipv4: 8, ipv6: 16 };

/**
 * Decides which of the addresses that nodes claim are accepted. A user who may write Node objects could otherwise redirect other nodes'
 * traffic, or cut nodes off: with a pod network that covers other nodes, the underlay or Services, or with a tunnel that ends at a pod.
 *
 * If two claims collide, the node that joined first gets the address, on every node and in any order of events. Two tunnels with one
 * address do not collide: a host that returns under another name has both for a while.
 */
export class AddressClaims {
  #reserved: readonly ReservedRange[];
  readonly #ofNode = new Map<string, readonly AddressClaim[]>();
  readonly #index: Readonly<Record<Family, RangeIndex>> = { ipv4: new RangeIndex(), ipv6: new RangeIndex() };

  constructor(reserved: readonly ReservedRange[]) {
    this.#reserved = reserved;
  }

  /** Replaces the reserved ranges. All claims of nodes must be set again after this. */
  reserve(reserved: readonly ReservedRange[]): void {
    this.#reserved = reserved;
  }

  /** Replaces all claims of `node`. @returns other nodes whose claims may be decided differently now */
  set(node: string, claims: readonly AddressClaim[]): ReadonlySet<string> {
    const before = this.#ofNode.get(node) ?? [];
    for (const claim of before) this.#index[claim.range.family].remove(claim);
    // A claim that can never be accepted collides with no other.
    const possible = claims.filter((claim) => this.#impossible(claim) === undefined);
    for (const claim of possible) this.#index[claim.range.family].add(claim);
    if (possible.length === 0) this.#ofNode.delete(node);
    else this.#ofNode.set(node, possible);
    const concerned = new Set<string>();
    for (const claim of [...before, ...possible]) {
      for (const other of this.#colliding(claim)) if (other.node !== node && !isEarlier(other, claim)) concerned.add(other.node);
      for (const other of this.#sharing(claim)) concerned.add(other.node);
    }
    return concerned;
  }

  /** Returns the last claims of a node, without those that reserved ranges exclude. */
  of(node: string): readonly AddressClaim[] {
    return this.#ofNode.get(node) ?? [];
  }

  /** Reports whether another node's tunnel also ends at this address. */
  isShared(claim: AddressClaim): boolean {
    return this.#sharing(claim).next().done !== true;
  }

  /** Returns the reason for rejecting a claim, as text for operators; undefined if it is accepted. */
  objection(claim: AddressClaim): string | undefined {
    const impossible = this.#impossible(claim);
    if (impossible !== undefined) return impossible;
    for (const other of this.#colliding(claim))
      if (isEarlier(other, claim)) return `overlaps ${other.range.text} of node ${other.node}, which was there before`;
    return undefined;
  }

  /** Describes the claimant of a part of these addresses, for operators. */
  claimantOf(range: Cidr, counts: (claim: AddressClaim) => boolean = () => true): string | undefined {
    for (const claim of this.#index[range.family].overlapping(range))
      if (counts(claim)) return `${claim.use === 'pods' ? 'pods' : 'the tunnel'} of node ${claim.node}`;
    return undefined;
  }

  #impossible({ range, use }: AddressClaim): string | undefined {
    const { family, prefixLength } = range;
    if (use === 'pods' && prefixLength > addressBits(family) - 1) return 'has no room for a gateway and pods';
    if (use === 'pods' && prefixLength < shortestPrefix[family]) return 'is larger than the network of any node';
    const taken = this.#reserved.find((each) => (use === 'pods' || each.against === 'both') && overlaps(each.range, range));
    return taken && `overlaps ${taken.range.text}: ${taken.what}`;
  }

  *#sharing(claim: AddressClaim): Generator<AddressClaim> {
    if (claim.use !== 'tunnel') return;
    for (const other of this.#index[claim.range.family].overlapping(claim.range))
      if (other.node !== claim.node && other.use === 'tunnel') yield other;
  }

  *#colliding(claim: AddressClaim): Generator<AddressClaim> {
    for (const other of this.#index[claim.range.family].overlapping(claim.range)) {
      if (other.node !== claim.node && !(other.use === 'tunnel' && claim.use === 'tunnel')) yield other;
    }
  }
}

function isEarlier(a: AddressClaim, b: AddressClaim): boolean {
  if (a.since === b.since) return a.node < b.node;
  return a.since !== '' && (b.since === '' || a.since < b.since);
}

/** Returns the first bits of a network's address, as many as it and a prefix of `length` have in common. */
function startAt({ network, prefixLength, family }: Cidr, length: number): bigint {
  return network.value >> BigInt(addressBits(family) - Math.min(prefixLength, length));
}

/** Index of ranges that finds overlaps without a full scan: a lookup takes as many steps as there are different prefix lengths. */
class RangeIndex {
  readonly #all = new Set<AddressClaim>();
  /** Ranges of exactly this length, by prefix length. */
  readonly #exact = new Map<number, ByStart>();
  /** Ranges of this length or longer, by the prefix that contains them. */
  readonly #inside = new Map<number, ByStart>();

  add(claim: AddressClaim): void {
    const { prefixLength } = claim.range;
    if (!this.#inside.has(prefixLength)) {
      this.#exact.set(prefixLength, new Map());
      this.#inside.set(prefixLength, new Map());
      for (const known of this.#all) if (known.range.prefixLength >= prefixLength) put(this.#inside.get(prefixLength), known, prefixLength);
    }
    this.#all.add(claim);
    put(this.#exact.get(prefixLength), claim, prefixLength);
    for (const [length, byStart] of this.#inside) if (length <= prefixLength) put(byStart, claim, length);
  }

  remove(claim: AddressClaim): void {
    if (!this.#all.delete(claim)) return;
    const { prefixLength } = claim.range;
    take(this.#exact.get(prefixLength), claim, prefixLength);
    for (const [length, byStart] of this.#inside) if (length <= prefixLength) take(byStart, claim, length);
  }

  *overlapping(range: Cidr): Generator<AddressClaim> {
    const { prefixLength } = range;
    for (const [length, byStart] of this.#exact) if (length < prefixLength) yield* at(byStart, startAt(range, length));
    const inside = this.#inside.get(prefixLength);
    if (inside) yield* at(inside, startAt(range, prefixLength));
    else for (const known of this.#all) if (known.range.prefixLength > prefixLength && overlaps(known.range, range)) yield known;
  }
}

/** Claims by start. A single claim is stored directly, as nearly always: thousands of sets of one take more memory than the claims. */
type ByStart = Map<bigint, AddressClaim | Set<AddressClaim>>;

function at(byStart: ByStart, start: bigint): Iterable<AddressClaim> {
  const there = byStart.get(start);
  if (there === undefined) return [];
  return there instanceof Set ? there : [there];
}

function put(byStart: ByStart | undefined, claim: AddressClaim, length: number): void {
  const start = startAt(claim.range, length);
  const there = byStart?.get(start);
  if (there === undefined) byStart?.set(start, claim);
  else if (there instanceof Set) there.add(claim);
  else byStart?.set(start, new Set([there, claim]));
}

function take(byStart: ByStart | undefined, claim: AddressClaim, length: number): void {
  const start = startAt(claim.range, length);
  const there = byStart?.get(start);
  if (there instanceof Set) there.delete(claim);
  if (there === claim || (there instanceof Set && there.size === 0)) byStart?.delete(start);
}
