import { type Family, hostCidr, type Ip } from '../net/ip.ts';
import type { PeerIdentity } from '../policy-matrix/matrix.ts';
import { type Addresses, families } from './addresses.ts';
import type { IndexedPod, Kind, PodKinds } from './kinds.ts';
import type { Membership, MembershipChange } from './membership.ts';
import type { PeerSet, TermHolding } from './peer-set.ts';
import { type PrefixMark, type PrefixSets, prefixSets } from './prefixes.ts';
import type { Pair, Relations } from './relations.ts';

interface IdentitiesOptions {
  readonly membership: Membership;
  readonly relations: Relations;
  readonly kinds: PodKinds;
  readonly addresses: Addresses;
  /** Gets the networks whose rows come, go or change. */
  readonly changed: Set<string>;
}

/** Which identity each address has in one direction: rows of networks, and of addresses that are something else than their network. */
export class Identities {
  readonly #rows = new Map<string, Pair>();
  readonly #options: IdentitiesOptions;
  #networks: Readonly<Record<Family, PrefixSets<TermHolding>>> = networksOf([]);
  #peerSets = new Map<ReadonlySet<TermHolding>, PeerSet>();
  #networkRows = new Map<string, PeerSet>();
  /** Addresses with a row of their own. */
  readonly #own = new Map<string, { readonly ip: Ip; readonly pair: Pair }>();
  #unions = new Map<string, PeerSet>();

  constructor(options: IdentitiesOptions) {
    this.#options = options;
  }

  /** By network. A view. */
  get rows(): ReadonlyMap<string, PeerIdentity> {
    return this.#rows;
  }

  /** @param moved addresses of pods that have come, gone or changed @param nodesChanged the networks or addresses of some node have */
  settle({ kinds, namespaces, blocks }: MembershipChange, moved: Iterable<Ip>, nodesChanged: boolean): void {
    const dirty = new Map<string, Ip>();
    const mark = (ips: Iterable<Ip>): void => {
      for (const ip of ips) dirty.set(ip.text, ip);
    };
    mark(moved);
    for (const kind of kinds) mark(addressesOf(kind));
    for (const name of namespaces) for (const kind of this.#options.kinds.ofNamespace(name)) mark(addressesOf(kind));
    this.#unions.clear();
    if (blocks || nodesChanged) {
      this.#renewNetworks();
      mark(this.#dependents());
    }
    for (const ip of dirty.values()) this.#renewAddress(ip);
  }

  setsInUse(): readonly PeerSet[] {
    return [...this.#networkRows.values(), ...this.#peerSets.values()];
  }

  /** Whose row depends on the networks: pods that some term holds or that lie in no pod network, gateways, and what has a row. */
  *#dependents(): Iterable<Ip> {
    const { membership, kinds, addresses } = this.#options;
    for (const { ip } of this.#own.values()) yield ip;
    for (const name of kinds.namespaces()) {
      const isWide = membership.wideOf(name) !== membership.sets.empty;
      for (const kind of kinds.ofNamespace(name)) if (isWide || membership.fineOf(kind) !== membership.sets.empty) yield* addressesOf(kind);
    }
    if (membership.anyPod !== membership.sets.empty) yield* addresses.strays();
    if (this.#networkRows.size > 0) yield* addresses.gateways();
  }

  #renewNetworks(): void {
    const marks: PrefixMark<TermHolding>[] = [];
    for (const { term, holding } of this.#options.membership.blocks()) {
      if (term.is === 'block') {
        marks.push({ cidr: term.cidr, adds: holding });
        for (const cidr of term.except) marks.push({ cidr, removes: holding });
      } else
        for (const { cidr, adds, removes } of this.#options.addresses.podNetworks())
          marks.push({ cidr, ...(adds ? { adds: holding } : {}), ...(removes ? { removes: holding } : {}) });
    }
    this.#networks = networksOf(marks);
    this.#peerSets = new Map();
    const rows = new Map<string, PeerSet>();
    for (const family of families) for (const { cidr, held } of this.#networks[family].rows) rows.set(cidr.text, this.#peerSetOf(held));
    const before = this.#networkRows;
    this.#networkRows = rows;
    for (const [text, set] of rows) if (before.get(text) !== set) this.#renewRow(text);
    for (const text of before.keys()) if (!rows.has(text)) this.#renewRow(text);
  }

  #renewAddress(ip: Ip): void {
    const { relations, membership } = this.#options;
    const network = this.#networkOf(ip);
    const { coarse, fine } = this.#identityOf(ip, network);
    const cidr = hostCidr(ip).text;
    const before = this.#own.get(cidr);
    // Also one that its network has come to have: a row of its own would say nothing.
    const isOwn = coarse !== network || fine !== membership.sets.empty;
    if (isOwn ? before?.pair.coarse === coarse && before.pair.fine === fine : !before) return;
    if (isOwn) this.#own.set(cidr, { ip, pair: relations.acquirePair(coarse, fine) });
    else this.#own.delete(cidr);
    this.#renewRow(cidr);
    if (before) relations.releasePair(before.pair);
  }

  #identityOf(ip: Ip, network: PeerSet): { readonly coarse: PeerSet; readonly fine: PeerSet } {
    const { membership, addresses } = this.#options;
    const nothing = membership.sets.empty;
    const owner = addresses.ownerOf(ip);
    if (!owner) return { coarse: network, fine: nothing };
    if ('pod' in owner) {
      const { kind } = owner.pod;
      return { coarse: this.#union(network, membership.wideOf(kind.namespace), membership.anyPod), fine: membership.fineOf(kind) };
    }
    const others = owner.gatewayOf.addresses.filter(({ family }) => family === ip.family);
    return { coarse: this.#union(network, ...others.map((each) => this.#networkOf(each))), fine: nothing };
  }

  /** What an address has for itself goes before what its network has, where both are rows of one key. */
  #renewRow(cidr: string): void {
    const { relations, membership, changed } = this.#options;
    const network = this.#networkRows.get(cidr);
    const before = this.#rows.get(cidr);
    const own = this.#own.get(cidr)?.pair;
    const pair = own ? relations.acquirePair(own.coarse, own.fine) : network && relations.acquirePair(network, membership.sets.empty);
    if (pair) this.#rows.set(cidr, pair);
    else this.#rows.delete(cidr);
    if (before !== pair) changed.add(cidr);
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

  #union(...sets: readonly PeerSet[]): PeerSet {
    const key = sets.map(({ id }) => id).join();
    const known = this.#unions.get(key);
    if (known) return known;
    const union = this.#options.membership.sets.union(...sets);
    this.#unions.set(key, union);
    return union;
  }
}

function networksOf(marks: readonly PrefixMark<TermHolding>[]): Readonly<Record<Family, PrefixSets<TermHolding>>> {
  return { ipv4: prefixSets('ipv4', marks), ipv6: prefixSets('ipv6', marks) };
}

function* addressesOf({ pods }: Kind): Iterable<Ip> {
  for (const { addresses } of pods as ReadonlySet<IndexedPod>) yield* addresses;
}
