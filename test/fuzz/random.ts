/** A small generator of pseudo-random numbers, the same for the same seed everywhere. Source: Mulberry32, in the public domain. */
export class SeededRandom {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0 to 2 ** 32 - 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b_79f5) >>> 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), this.#state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return (mixed ^ (mixed >>> 14)) >>> 0;
  }

  /** From 0 to `end` - 1. */
  below(end: number): number {
    return this.next() % end;
  }

  /** @param share of 1 */
  chance(share: number): boolean {
    return this.next() < share * 2 ** 32;
  }

  pick<T>(of: readonly T[]): T {
    const found = of[this.below(of.length)];
    if (found === undefined) throw new Error('a choice among nothing');
    return found;
  }
}
