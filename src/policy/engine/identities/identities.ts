import { finish, type Steps, tinyWork } from '../../../base/async/steps.ts';
import { type Family, hostCidr, type Ip, parseCidr } from '../../../base/net/ip.ts';
import type { Kind, PodKinds } from '../kinds.ts';
import type { Membership, MembershipChange } from '../membership.ts';
import { SteadyRows } from '../published-rows.ts';
import type { Pair, Relations } from '../relations.ts';
import type { BlockTerm, Term } from '../term.ts';
import { type Addresses, families } from './addresses.ts';
import { type CoarseRoom, IdentityParts } from './identity-parts.ts';
import type { PeerSet, TermHolding } from './peer-set.ts';
import { type NetworkShare, networkShares } from './peer-shares.ts';
import { type PrefixMark, type PrefixSets, prefixSets } from './prefixes.ts';

interface IdentitiesOptions {
  readonly membership: Membership;
  readonly relations: Relations;
  readonly kinds: PodKinds;
  readonly addresses: Addresses;
  /** Maximum number of sets of networks that rules may distinguish. */
  readonly setsMost: number;
  readonly room?: CoarseRoom | undefined;
}

/** Address with a row of its own, or one that would have it if no term were left out. */
interface OwnRow {
  /** Set of all matching terms in use. */
  readonly full: PeerSet;
  /** Identity by the terms that are not left out; undefined if it equals that of the network. */
  readonly pair: Pair | undefined;
}

/** Identity of each address in one direction: rows for networks, and for addresses whose identity differs from that of their network. */
export class Identities {
  /** Identities by network. */
  readonly rows = new SteadyRows<Pair>();
  readonly #options: IdentitiesOptions;
  #networks: Readonly<Record<Family, PrefixSets<TermHolding>>> = finish(networksOf([]));
  #peerSets = new Map<ReadonlySet<TermHolding>, PeerSet>();
  #networkRows = new Map<string, PeerSet>();
  /** Addresses with a row of their own. */
  readonly #own = new Map<string, OwnRow>();
  #unions = new Map<string, PeerSet>();
  /** Sets of networks for pods in them that are known. */
  #knownPods = new Map<PeerSet, PeerSet>();
  /** Number of networks and addresses for each set, by all terms in use. */
  readonly #fullSets = new Map<PeerSet, number>();
  /** True if the sets differ from those of the last round. */
  #areSetsChanged = false;
  readonly #parts: IdentityParts;

  constructor(options: IdentitiesOptions) {
    this.#options = options;
    this.#parts = new IdentityParts({ ...options, sets: options.membership.sets });
  }

  /**
   * Applies the changes of a round.
   *
   * @param moved addresses of pods that were added, removed or changed
   * @param nodesChanged true if the networks or addresses of a node have changed
   */
  *settle({ kinds, namespaces, blocks }: MembershipChange, moved: Iterable<Ip>, nodesChanged: boolean): Steps {
    const dirty = new Map<string, Ip>();
    this.#parts.begin();
    yield* mark(dirty, moved);
    yield* markKinds(dirty, kinds);
    for (const name of namespaces) yield* markKinds(dirty, this.#options.kinds.ofNamespace(name));
    this.#unions.clear();
    this.#knownPods.clear();
    if (blocks || nodesChanged) {
      yield* this.#renewNetworks();
      yield* this.#markDependents(dirty);
    }
    for (const ip of dirty.values()) {
      this.#renewAddress(ip);
      yield;
    }
    yield* this.#share();
  }

  /** Blocks that apply to no address, because rules distinguish more networks than there are numbers. */
  get leftOut(): ReadonlySet<TermHolding> {
    return this.#parts.leftOut;
  }

  /** Network shares by namespace. */
  networkShares(): ReadonlyMap<string, NetworkShare> {
    const { membership, relations, setsMost: most } = this.#options;
    const terms = [...membership.blocks()].map(({ term }) => term);
    return networkShares(terms, { most, claimantsOf: (term) => relations.namespacesOf(term) });
  }

  *setsInUse(): Iterable<PeerSet> {
    yield* this.#fullSets.keys();
    yield* this.#parts.setsInUse();
    yield* this.#networkRows.values();
    yield* this.#peerSets.values();
  }

  /** Divides sets again if numbers are short. Every row may change then. */
  *#share(): Steps {
    const ofNetworks = new Set(this.#networkRows.values());
    ofNetworks.delete(this.#options.membership.sets.empty);
    const areChanged = this.#areSetsChanged;
    this.#areSetsChanged = false;
    if (!(yield* this.#parts.settle(ofNetworks, this.#fullSets, areChanged))) return;
    for (const cidr of this.#networkRows.keys()) {
      this.#renewRow(cidr);
      yield;
    }
    for (const cidr of [...this.#own.keys()]) {
      this.#renewAddress(parseCidr(cidr).network);
      yield;
    }
  }

  /** Counts one use more, or one less, of a set by a network or an address. */
  #count(full: PeerSet, by: 1 | -1): void {
    if (full === this.#options.membership.sets.empty) return;
    const uses = (this.#fullSets.get(full) ?? 0) + by;
    this.#areSetsChanged ||= uses === 0 || !this.#fullSets.has(full);
    if (uses === 0) {
      this.#fullSets.delete(full);
      this.#parts.forget(full);
    } else this.#fullSets.set(full, uses);
  }

  /**
   * Marks addresses whose row depends on the networks: pods that a term matches, gateways, strays, and addresses with a row of their own.
   */
  *#markDependents(dirty: Map<string, Ip>): Steps {
    const { membership, kinds, addresses } = this.#options;
    for (const cidr of this.#own.keys()) {
      const ip = parseCidr(cidr).network;
      dirty.set(ip.text, ip);
      yield;
    }
    // Each known pod differs from the unknown ones of its network.
    const isUnknownUsed = membership.unknownPod !== membership.sets.empty;
    for (const name of kinds.namespaces()) {
      const isWide = membership.wideOf(name) !== membership.sets.empty;
      for (const kind of kinds.ofNamespace(name)) {
        if (isWide || isUnknownUsed || membership.fineOf(kind) !== membership.sets.empty) yield* markKinds(dirty, [kind]);
        yield;
      }
      yield;
    }
    if (membership.anyPod !== membership.sets.empty) yield* mark(dirty, yield* addresses.strays());
    if (this.#networkRows.size > 0) yield* mark(dirty, addresses.gateways());
  }

  *#renewNetworks(): Steps {
    const marks: PrefixMark<TermHolding>[] = [];
    for (const { term, holding } of this.#options.membership.blocks()) {
      const within = yield* this.#marksOf(term);
      for (const { cidr, adds, removes } of within) {
        marks.push({ cidr, ...(adds ? { adds: holding } : {}), ...(removes ? { removes: holding } : {}) });
        yield;
      }
    }
    this.#networks = yield* networksOf(marks);
    this.#peerSets = new Map();
    const rows = new Map<string, PeerSet>();
    for (const family of families)
      for (const { cidr, held } of this.#networks[family].rows) {
        const set = this.#peerSetOf(held);
        rows.set(cidr.text, set);
        this.#count(set, 1);
        yield;
      }
    const before = this.#networkRows;
    this.#networkRows = rows;
    for (const set of before.values()) {
      this.#count(set, -1);
      yield;
    }
    for (const [text, set] of rows) {
      if (before.get(text) !== set) this.#renewRow(text);
      yield;
    }
    for (const text of before.keys()) {
      if (!rows.has(text)) this.#renewRow(text);
      yield;
    }
  }

  *#marksOf(term: Term): Steps<Iterable<PrefixMark<unknown>>> {
    const { addresses } = this.#options;
    if (term.is === 'block') return blockMarks(term);
    return term.is === 'nodes' ? yield* addresses.ofNodes(term.nodes) : yield* addresses.podNetworks();
  }

  #renewAddress(ip: Ip): void {
    const { relations, membership } = this.#options;
    const network = this.#networkOf(ip);
    const { full, fine: ofPod } = this.#identityOf(ip, network);
    const cidr = hostCidr(ip).text;
    const before = this.#own.get(cidr);
    const { coarse, rest } = this.#parts.partsOf(full);
    const fine = coarse === membership.sets.unnumbered ? rest : membership.sets.union(rest, ofPod);
    const around = this.#parts.partsOf(network);
    // False also if the network has meanwhile got the same identity: a row for the address would be redundant.
    const isOwn = coarse !== around.coarse || fine !== around.rest;
    const pair = before?.pair;
    if (before?.full === full && (isOwn ? pair?.coarse === coarse && pair.fine === fine : !pair)) return;
    const isKept = isOwn || full !== network;
    if (!isKept && !before) return;
    if (isKept) this.#own.set(cidr, { full, pair: isOwn ? relations.acquirePair(coarse, fine) : undefined });
    else this.#own.delete(cidr);
    if (isKept) this.#count(full, 1);
    if (before) this.#count(before.full, -1);
    this.#renewRow(cidr);
    if (pair) relations.releasePair(pair);
  }

  #identityOf(ip: Ip, network: PeerSet): { readonly full: PeerSet; readonly fine: PeerSet } {
    const { membership, addresses } = this.#options;
    const nothing = membership.sets.empty;
    const owner = addresses.ownerOf(ip);
    if (!owner) return { full: network, fine: nothing };
    if ('pod' in owner) {
      const { kind } = owner.pod;
      const sets = [this.#withoutUnknown(network), membership.wideOf(kind.namespace), membership.anyPod] as const;
      const isUnknown = !membership.isKnown(kind.namespace);
      return { full: this.#union(...sets, ...(isUnknown ? [membership.unknownPod] : [])), fine: membership.fineOf(kind) };
    }
    const others = owner.gatewayOf.addresses.filter(({ family }) => family === ip.family);
    return { full: this.#union(network, ...others.map((each) => this.#networkOf(each))), fine: nothing };
  }

  /** Returns the set of a network for a pod in it that is known. */
  #withoutUnknown(network: PeerSet): PeerSet {
    const { sets, unknownPod } = this.#options.membership;
    const [unknown] = unknownPod.holdings;
    if (!unknown || !network.holdings.includes(unknown)) return network;
    const known = this.#knownPods.get(network) ?? sets.of(network.holdings.filter((each) => each !== unknown));
    this.#knownPods.set(network, known);
    return known;
  }

  /** Writes the row of a key. The identity of an address takes precedence over that of a network with the same CIDR. */
  #renewRow(cidr: string): void {
    const { relations } = this.#options;
    const network = this.#networkRows.get(cidr);
    const before = this.rows.current.get(cidr);
    const own = this.#own.get(cidr)?.pair;
    const around = network && this.#parts.partsOf(network);
    const ofNetwork = around && relations.acquirePair(around.coarse, around.rest);
    const pair = own ? relations.acquirePair(own.coarse, own.fine) : ofNetwork;
    if (own && ofNetwork) relations.releasePair(ofNetwork);
    if (pair) this.rows.set(cidr, pair);
    else this.rows.delete(cidr);
    if (before) relations.releasePair(before);
  }

  #networkOf(ip: Ip): PeerSet {
    return this.#peerSetOf(this.#networks[ip.family].heldAt(ip));
  }

  #peerSetOf(held: ReadonlySet<TermHolding>): PeerSet {
    const known = this.#peerSets.get(held);
    if (known) return known;
    const set = this.#options.membership.sets.of(held);
    this.#peerSets.set(held, set);
    return set;
  }

  #union(network: PeerSet, ...more: readonly PeerSet[]): PeerSet {
    const { empty } = this.#options.membership.sets;
    if (more.every((each) => each === empty)) return network;
    const sets = [network, ...more];
    const key = sets.map(({ id }) => id).join();
    const known = this.#unions.get(key);
    if (known) return known;
    const union = this.#options.membership.sets.union(...sets);
    this.#unions.set(key, union);
    return union;
  }
}

function* networksOf(marks: readonly PrefixMark<TermHolding>[]): Steps<Readonly<Record<Family, PrefixSets<TermHolding>>>> {
  return { ipv4: yield* prefixSets('ipv4', marks), ipv6: yield* prefixSets('ipv6', marks) };
}

function* blockMarks({ blocks }: BlockTerm): Iterable<PrefixMark<true>> {
  for (const { cidr, except } of blocks) {
    yield { cidr, adds: true };
    for (const each of except) yield { cidr: each, removes: true };
  }
}

function* markKinds(dirty: Map<string, Ip>, kinds: Iterable<Kind>): Steps {
  let work = 0;
  for (const { pods } of kinds)
    for (const { addresses } of pods) {
      for (const ip of addresses) dirty.set(ip.text, ip);
      if (++work % tinyWork === 0) yield;
    }
}

function* mark(dirty: Map<string, Ip>, ips: Iterable<Ip>): Steps {
  for (const ip of ips) {
    dirty.set(ip.text, ip);
    yield;
  }
}
