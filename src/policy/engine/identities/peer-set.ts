import type { Steps } from '../../../base/async/steps.ts';
import type { PeerClass } from '../../matrix/matrix.ts';
import { compareTexts } from '../selector.ts';
import type { Term } from '../term.ts';

/** That an address is held by a term; of a term with the name of a port, with the number that the name has there. */
export interface TermHolding {
  readonly id: number;
  readonly text: string;
  readonly term: Term;
  readonly port?: number;
}

/** A set of holdings; equal ones are the same object. */
export class PeerSet implements PeerClass {
  readonly id: number;
  /** By their numbers. */
  readonly holdings: readonly TermHolding[];

  constructor(id: number, holdings: readonly TermHolding[]) {
    this.id = id;
    this.holdings = holdings;
  }

  get terms(): readonly string[] {
    return this.holdings.map(({ text }) => text).sort(compareTexts);
  }
}

/** Interns sets. Those that are in use no longer are forgotten when they are most of all. */
export class PeerSets {
  readonly empty = new PeerSet(0, []);
  readonly #sets = new Map<string, PeerSet>();
  #lastId = 0;
  #sweepAt = SWEEP_MIN;

  of(holdings: Iterable<TermHolding>): PeerSet {
    const sorted = [...holdings].sort((a, b) => a.id - b.id);
    if (sorted.length === 0) return this.empty;
    const key = sorted.map(({ id }) => id).join();
    const known = this.#sets.get(key);
    if (known) return known;
    const set = new PeerSet(++this.#lastId, sorted);
    this.#sets.set(key, set);
    return set;
  }

  union(...sets: readonly PeerSet[]): PeerSet {
    const filled = sets.filter((set) => set !== this.empty);
    const [only] = filled;
    if (filled.length <= 1) return only ?? this.empty;
    return this.of(new Set(filled.flatMap(({ holdings }) => holdings)));
  }

  /** Terms that name networks, perhaps thousands, are no longer used: sets that have them are forgotten by the next sweep. */
  sweepSoon(): void {
    this.#sweepAt = 0;
  }

  /** @param inUse gives every set that is still referred to */
  *sweep(inUse: () => Iterable<PeerSet>): Steps {
    if (this.#sets.size < this.#sweepAt) return;
    const used = new Set<PeerSet>();
    for (const set of inUse()) {
      used.add(set);
      yield;
    }
    for (const [key, set] of this.#sets) {
      if (!used.has(set)) this.#sets.delete(key);
      yield;
    }
    this.#sweepAt = Math.max(SWEEP_MIN, 2 * this.#sets.size);
  }
}

const SWEEP_MIN = 1_000;
