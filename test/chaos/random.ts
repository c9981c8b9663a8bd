import { generator } from '../support/random.ts';

/** Draws of one step: the same for one seed and number on every host. */
export class Random {
  readonly #next: () => number;

  constructor(seed: number, step: number) {
    this.#next = generator(Math.imul(seed ^ 0x5eed, 0x9e37_79b1) ^ Math.imul(step + 1, 0x85eb_ca6b));
  }

  /** An integer from 0 up to, but not including, `below`. */
  below(below: number): number {
    return Math.floor(this.#next() * below);
  }

  chance(of: number): boolean {
    return this.#next() < of;
  }

  /** @throws Error if there is none */
  pick<T>(among: readonly T[]): T {
    const picked = among[this.below(among.length)];
    if (picked === undefined) throw new Error('nothing to choose from');
    return picked;
  }

  /** Undefined if there is none. */
  maybe<T>(among: readonly T[]): T | undefined {
    return among.length === 0 ? undefined : this.pick(among);
  }

  /** Some of them, in their order; at least one, if there is one. */
  some<T>(among: readonly T[]): T[] {
    const chosen = among.filter(() => this.chance(0.5));
    return chosen.length > 0 || among.length === 0 ? chosen : [this.pick(among)];
  }
}
