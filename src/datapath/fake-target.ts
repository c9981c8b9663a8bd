import { SeineError } from '../errors/seine-error.ts';
import type { Plan, Target } from './target.ts';

type Fault = 'refuse' | 'loseRequest' | 'loseAnswer';

/**
 * A target in memory that keeps the real one's promises: all-or-nothing, and a lost answer says nothing
 * about whether the change was made. For tests of everything above a `Target`.
 */
export class FakeTarget<K, V> implements Target<K, V> {
  held = new Map<K, V>();
  readonly log: string[] = [];
  /** Absent, as of most targets. */
  visit?: NonNullable<Target<K, V>['visit']>;
  /** Keys that are refused for ever. */
  readonly poison = new Set<K>();
  readonly #faults: Fault[] = [];
  #isAlive = true;

  failNext(...faults: readonly Fault[]): void {
    this.#faults.push(...faults);
  }

  failNoMore(): void {
    this.#faults.length = 0;
  }

  /** From now on nothing is answered. */
  die(): void {
    this.#isAlive = false;
  }

  revive(): void {
    this.#isAlive = true;
  }

  /** What a restart of the switch does. */
  wipe(): void {
    this.held = new Map();
  }

  async observe(): Promise<Map<K, V>> {
    this.#reach();
    this.log.push('observe');
    return new Map(this.held);
  }

  async apply({ put, remove }: Plan<K, V>): Promise<void> {
    this.#reach();
    const fault = this.#faults.shift() ?? ([...put.keys()].some((key) => this.poison.has(key)) ? 'refuse' : undefined);
    this.log.push([fault ?? 'apply', ...put.keys(), ...Array.from(remove, (key) => `-${String(key)}`)].join(' '));
    if (fault === 'refuse') throw new SeineError('REFUSED', 'fake');
    if (fault === 'loseRequest') throw new SeineError('UNAVAILABLE', 'fake');
    for (const [key, value] of put) this.held.set(key, value);
    for (const key of remove) this.held.delete(key);
    if (fault === 'loseAnswer') throw new SeineError('UNAVAILABLE', 'fake');
  }

  #reach(): void {
    if (!this.#isAlive) throw new SeineError('UNAVAILABLE', 'fake: not reachable');
  }
}
