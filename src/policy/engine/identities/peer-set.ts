import type { Steps } from '../../../base/async/steps.ts';
import { type PeerClass, unnumbered } from '../../matrix/matrix.ts';
import { compareTexts } from '../selector.ts';
import type { Term } from '../term.ts';

/** A term that matches an address. If the term names a port, also the number of that port at the address. */
export interface TermHolding {
  readonly id: number;
  readonly text: string;
  readonly term: Term;
  readonly port?: number;
}

/** Set of holdings; equal sets are the same object. */
export class PeerSet implements PeerClass {
  readonly id: number;
  /** Holdings sorted by `id`. */
  readonly holdings: readonly TermHolding[];

  constructor(id: number, holdings: readonly TermHolding[]) {
    this.id = id;
    this.holdings = holdings;
  }

  get terms(): readonly string[] {
    return this.holdings.map(({ text }) => text).sort(compareTexts);
  }
}

/** Interns sets. Sets that are no longer in use are dropped once they are the majority. */
export class PeerSets {
  readonly empty = new PeerSet(0, []);
  /** Stand-in for sets that cannot be distinguished. */
  readonly unnumbered = new PeerSet(unnumbered.id, []);
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

  /**
   * Schedules a sweep: terms that name networks, perhaps thousands, are no longer used. The next sweep drops the sets that contain them.
   */
  sweepSoon(): void {
    this.#sweepAt = 0;
  }

  /** Drops unused sets. @param inUse yields every set that is still referred to */
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
