import { type Steps, tinyWork } from '../../../base/async/steps.ts';
import type { PeerClass } from '../../matrix/matrix.ts';
import type { Term } from '../term.ts';
import type { PeerSet, PeerSets, TermHolding } from './peer-set.ts';
import { termsBeyond } from './peer-shares.ts';

/** Numbers of coarse parts that OVS can take at this moment. */
export interface CoarseRoom {
  /** Reports whether a set already has a number. */
  isKnown(set: PeerClass): boolean;
  readonly free: number;
}

interface IdentityPartsOptions {
  readonly sets: PeerSets;
  /** Maximum number of sets of networks that rules may distinguish, and of sets that coarse parts may be. */
  readonly setsMost: number;
  readonly relations: {
    namespacesOf(term: Term): ReadonlySet<string>;
    isClosing(term: Term): boolean;
    readonly generation: number;
  };
  /** Numbers that are free; undefined if there are enough for all sets. */
  readonly room?: CoarseRoom | undefined;
}

/** Blocks and whole namespaces that contain an address, without those that are left out. */
interface DividedSet {
  readonly coarse: PeerSet;
  /** Terms moved to the fine part, because there are more sets than coarse numbers. */
  readonly rest: PeerSet;
}

/** Number of free numbers that are not used to move sets back from the fine part. One change may need this many. */
const SPARE_NUMBERS = 95;
const none: ReadonlySet<TermHolding> = new Set();

/**
 * Divides the terms that match an address between the coarse and the fine part of its identity. The fine part has 256 times as many
 * numbers.
 *
 * Networks nest, so there are never more sets than networks: sets beyond `setsMost` are left out by shares. Pods that lie in networks and
 * in namespaces make one set for each combination. These are not left out: the terms with the highest demand move to the fine part, so that
 * no namespace can take the numbers of another one.
 */
export class IdentityParts {
  readonly #options: IdentityPartsOptions;
  #leftOut = none;
  #fine = none;
  /** Terms of `#leftOut` in classes with rules that deny or pass. */
  #closing = none;
  #generation = -1;
  readonly #divided = new Map<PeerSet, DividedSet>();
  /** Sets that would be in the coarse part if a number had been free. */
  readonly #displaced = new Set<PeerSet>();
  /** Coarse parts of this round that OVS does not have yet. */
  readonly #reserved = new Set<PeerSet>();

  constructor(options: IdentityPartsOptions) {
    this.#options = options;
  }

  /** Blocks that apply to no address, because rules distinguish more networks than there are numbers. */
  get leftOut(): ReadonlySet<TermHolding> {
    return this.#leftOut;
  }

  /** Begins a round: numbers that OVS had for previous rounds may be free. */
  begin(): void {
    this.#reserved.clear();
  }

  partsOf(full: PeerSet): DividedSet {
    const known = this.#divided.get(full);
    if (known) return known;
    const { sets } = this.#options;
    if (this.#closing.size > 0 && full.holdings.some((each) => this.#closing.has(each))) {
      const closed = { coarse: sets.unnumbered, rest: sets.empty };
      this.#divided.set(full, closed);
      return closed;
    }
    const isServed = this.#leftOut.size + this.#fine.size === 0;
    const served = isServed ? full.holdings : full.holdings.filter((each) => !this.#leftOut.has(each));
    const coarse = isServed ? full : sets.of(served.filter((each) => !this.#fine.has(each)));
    const hasNumber = coarse === sets.empty || this.#takeNumber(coarse);
    if (!hasNumber) this.#displaced.add(full);
    const divided = hasNumber
      ? { coarse, rest: isServed ? sets.empty : sets.of(served.filter((each) => this.#fine.has(each))) }
      : { coarse: sets.empty, rest: sets.of(served) };
    this.#divided.set(full, divided);
    return divided;
  }

  /** Forgets a set that no address has any more. */
  forget(full: PeerSet): void {
    this.#divided.delete(full);
    this.#displaced.delete(full);
  }

  /**
   * Shares the numbers of coarse parts again.
   *
   * @param ofNetworks sets of networks
   * @param all sets of networks and of addresses
   * @returns whether the parts of any address may have changed
   */
  *settle(ofNetworks: ReadonlySet<PeerSet>, all: ReadonlyMap<PeerSet, number>, areChanged: boolean): Steps<boolean> {
    const { setsMost: most, relations } = this.#options;
    const [leftOut, fine, closing] = [this.#leftOut, this.#fine, this.#closing];
    const isShort = all.size > most || leftOut.size + fine.size > 0;
    if (isShort && (areChanged || this.#generation !== relations.generation)) {
      this.#leftOut = ofNetworks.size > most ? yield* this.#beyond(ofNetworks) : none;
      const served = yield* this.#served(all.keys());
      this.#fine = served.size > most ? yield* this.#beyond(served) : none;
      this.#closing = new Set([...this.#leftOut].filter(({ term }) => relations.isClosing(term)));
      this.#generation = relations.generation;
    }
    const isSame = isEqual(leftOut, this.#leftOut) && isEqual(fine, this.#fine) && isEqual(closing, this.#closing);
    if (isSame && !this.#canReturn) return false;
    this.#divided.clear();
    this.#displaced.clear();
    return true;
  }

  *setsInUse(): Iterable<PeerSet> {
    for (const { coarse, rest } of this.#divided.values()) {
      yield coarse;
      yield rest;
    }
  }

  *#beyond(sets: Iterable<PeerSet>): Steps<ReadonlySet<TermHolding>> {
    const { setsMost: most, relations } = this.#options;
    return yield* termsBeyond({ sets, most, claimantsOf: (term) => relations.namespacesOf(term) });
  }

  *#served(all: Iterable<PeerSet>): Steps<ReadonlySet<PeerSet>> {
    const { sets } = this.#options;
    const served = new Set<PeerSet>();
    let work = 0;
    for (const full of all) {
      served.add(this.#leftOut.size === 0 ? full : sets.of(full.holdings.filter((each) => !this.#leftOut.has(each))));
      if (++work % tinyWork === 0) yield;
    }
    served.delete(sets.empty);
    return served;
  }

  /** Reports whether all displaced sets can get numbers now. */
  get #canReturn(): boolean {
    const { room } = this.#options;
    return this.#displaced.size > 0 && room !== undefined && room.free - this.#reserved.size >= this.#displaced.size + SPARE_NUMBERS;
  }

  #takeNumber(coarse: PeerSet): boolean {
    const { room } = this.#options;
    if (!room || this.#reserved.has(coarse) || room.isKnown(coarse)) return true;
    if (this.#reserved.size >= room.free) return false;
    this.#reserved.add(coarse);
    return true;
  }
}

function isEqual(a: ReadonlySet<TermHolding>, b: ReadonlySet<TermHolding>): boolean {
  return a.size === b.size && [...a].every((each) => b.has(each));
}
