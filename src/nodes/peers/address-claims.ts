import { addressBits, type Cidr, type Family, overlaps } from '../../base/net/ip.ts';

/** Addresses that a Node object says are its pods', or its tunnel's. */
export interface AddressClaim {
  readonly node: string;
  /** When the node joined, RFC 3339 in UTC; empty if that is not known, which counts as the latest. */
  readonly since: string;
  readonly use: 'pods' | 'tunnel';
  readonly range: Cidr;
}

/** Addresses that no other node can have. */
export interface ReservedRange {
  readonly range: Cidr;
  /** For people, e.g. `the Services' addresses`. */
  readonly what: string;
  /** A tunnel may end in the network that our own tunnels start from; pods may not live there. */
  readonly against: 'pods' | 'both';
}

/** A node's pods with a shorter prefix than this are no node's pods: the cluster would have room for a few nodes only. */
const shortestPrefix: Readonly<Record<Family, number>> = { ipv4: 8, ipv6: 16 };

/**
 * Which of the addresses that nodes claim they may have. Who writes a Node object could draw other nodes' traffic to itself
 * otherwise, or cut nodes off: by a network of pods that covers other nodes, the underlay or Services, or by a tunnel that ends
 * at a pod.
 *
 * Of two that collide, the node that joined first has its way, on every node alike and in whatever order they became known. Two
 * tunnels with one address do not collide: a machine that comes back under another name is both for a while.
 */
export class AddressClaims {
  #reserved: readonly ReservedRange[];
  readonly #ofNode = new Map<string, readonly AddressClaim[]>();
  readonly #index: Readonly<Record<Family, RangeIndex>> = { ipv4: new RangeIndex(), ipv6: new RangeIndex() };

  constructor(reserved: readonly ReservedRange[]) {
    this.#reserved = reserved;
  }

  /** Replaces what no node can have. What every node claims must be set again after this. */
  reserve(reserved: readonly ReservedRange[]): void {
    this.#reserved = reserved;
  }

  /** Replaces all that `node` claims. @returns other nodes, about whose claims the answer may be another now */
  set(node: string, claims: readonly AddressClaim[]): ReadonlySet<string> {
    const before = this.#ofNode.get(node) ?? [];
    for (const claim of before) this.#index[claim.range.family].remove(claim);
    // What can never be had collides with no claim.
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

  /** Claims of a node that no reserved range excludes, as they were set last. */
  of(node: string): readonly AddressClaim[] {
    return this.#ofNode.get(node) ?? [];
  }

  /** Whether another node's tunnel ends at this address as well. */
  isShared(claim: AddressClaim): boolean {
    return this.#sharing(claim).next().done !== true;
  }

  /** Why a claim that was set cannot be had, in words for people; undefined if it can. */
  objection(claim: AddressClaim): string | undefined {
    const impossible = this.#impossible(claim);
    if (impossible !== undefined) return impossible;
    for (const other of this.#colliding(claim))
      if (isEarlier(other, claim)) return `overlaps ${other.range.text} of node ${other.node}, which was there before`;
    return undefined;
  }

  /** Whose addresses these are in part, in words for people. */
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

/** The first bits of a network's address, as many as it and a prefix of `length` have in common. */
function startAt({ network, prefixLength, family }: Cidr, length: number): bigint {
  return network.value >> BigInt(addressBits(family) - Math.min(prefixLength, length));
}

/** Finds what overlaps a range without looking at everything: there are as many steps as different prefix lengths. */
class RangeIndex {
  readonly #all = new Set<AddressClaim>();
  /** By prefix length: what has exactly that length. */
  readonly #exact = new Map<number, ByStart>();
  /** By prefix length: what is inside, of that length or longer. */
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

/** A claim by itself where there is one only, as nearly always: thousands of sets of one take more memory than the claims. */
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
