import { SeineError } from '../../../base/errors/seine-error.ts';
import type { Plan, Target } from '../target.ts';

type Fault = 'refuse' | 'loseRequest' | 'loseAnswer';

/**
 * Target in memory with the guarantees of a real one: all-or-nothing, and a lost answer leaves the outcome open. For tests of everything
 * above a `Target`.
 */
export class FakeTarget<K, V> implements Target<K, V> {
  held = new Map<K, V>();
  readonly #needs: (key: K, value: V) => readonly K[];
  readonly log: string[] = [];
  /** Absent, as for most targets. */
  ready?: NonNullable<Target<K, V>['ready']>;
  visit?: NonNullable<Target<K, V>['visit']>;
  isLeftover?: NonNullable<Target<K, V>['isLeftover']>;
  sameDesired?: NonNullable<Target<K, V>['sameDesired']>;
  /** Keys that are always refused. */
  readonly poison = new Set<K>();
  readonly #faults: Fault[] = [];
  #isAlive = true;

  /** @param needs keys of other entries that an entry depends on, like a flow on its group; none if omitted */
  constructor(needs: (key: K, value: V) => readonly K[] = () => []) {
    this.#needs = needs;
  }

  failNext(...faults: readonly Fault[]): void {
    this.#faults.push(...faults);
  }

  failNoMore(): void {
    this.#faults.length = 0;
  }

  /** Stops answering calls. */
  die(): void {
    this.#isAlive = false;
  }

  revive(): void {
    this.#isAlive = true;
  }

  /** Empties the target, like a restart of OVS. */
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
    this.held = this.#after({ put, remove });
    if (fault === 'loseAnswer') throw new SeineError('UNAVAILABLE', 'fake');
  }

  /**
   * Applies a plan like the bridge: an entry to be put needs its dependencies present, and removal of an entry removes its dependents.
   * @throws SeineError `REFUSED`
   */
  #after({ put, remove }: Plan<K, V>): Map<K, V> {
    const next = new Map([...this.held, ...put]);
    for (const [key, value] of put)
      for (const needed of this.#needs(key, value))
        if (!next.has(needed)) throw new SeineError('REFUSED', `fake: ${String(key)} needs ${String(needed)}`);
    for (const key of remove) next.delete(key);
    const gone = (key: K): boolean => remove.has(key);
    for (const [key, value] of next) if (this.#needs(key, value).some(gone)) next.delete(key);
    return next;
  }

  #reach(): void {
    if (!this.#isAlive) throw new SeineError('UNAVAILABLE', 'fake: not reachable');
  }
}
