import { SeineError } from '../errors/seine-error.ts';
import { halves, type Portion, portions } from './plan.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import { type OwnerFailure, Refusals } from './refusals.ts';
import type { Plan } from './target.ts';

export type PortionWriterOptions<K extends string, V> = Pick<
  ReconcilerOptions<K, V>,
  'name' | 'desired' | 'target' | 'portionSize' | 'events' | 'now'
>;

/** What is known of the target where it is written to, and what was written. */
export interface Writing<K, V> {
  readonly actual: Map<K, V>;
  /** A refusal may only say that what is remembered is wrong. */
  readonly source: 'observed' | 'remembered';
  put: number;
  removed: number;
}

/**
 * Writes to a target in portions, and sets aside the owners whose wishes it does not take: one bad wish must not hold up the
 * others, and is tried again less and less often.
 */
export class PortionWriter<K extends string, V> {
  readonly #options: PortionWriterOptions<K, V>;
  readonly #refused = new Refusals();

  constructor(options: PortionWriterOptions<K, V>) {
    this.#options = options;
  }

  cut(plan: Plan<K, V>): Portion<K, V>[] {
    return portions(plan, (key) => this.#ownerOf(key), this.#options.portionSize);
  }

  /**
   * One portion after the other. What the target took is noted in `writing`.
   *
   * @throws SeineError `REFUSED` if the picture of the target may be wrong: it was remembered, or removals alone were refused;
   *   otherwise as the target's `apply`. What is in `writing` was written.
   */
  async write(all: readonly Portion<K, V>[], writing: Writing<K, V>, signal: AbortSignal): Promise<void> {
    const queue = [...all];
    for (let portion = queue.shift(); portion !== undefined; portion = queue.shift()) {
      try {
        await this.#options.target.apply(portion, signal);
      } catch (thrown) {
        const error = SeineError.from(thrown, `apply to ${this.#options.name}`);
        if (error.code !== 'REFUSED' || writing.source === 'remembered') throw error;
        queue.unshift(...this.#isolate(portion, error));
        continue;
      }
      for (const owner of portion.owners) this.forgive(owner);
      for (const [key, value] of portion.put) writing.actual.set(key, value);
      for (const key of portion.remove) writing.actual.delete(key);
      writing.put += portion.put.size;
      writing.removed += portion.remove.size;
    }
  }

  /** This owner wishes for something else, or got what it wishes for. @returns whether it was refused */
  forgive(owner: string): boolean {
    const was = this.#refused.delete(owner);
    if (was) this.#options.events.accepted?.(owner);
    return was;
  }

  refusalOf(owner: string): OwnerFailure | undefined {
    return this.#refused.get(owner);
  }

  refusals(): readonly OwnerFailure[] {
    return this.#refused.list();
  }

  /** True for a key whose owner was refused lately. */
  mustWait(key: K, nowMs: number): boolean {
    return this.#refused.mustWait(this.#ownerOf(key), nowMs);
  }

  /** When the next refused owner is to be tried again; `Infinity` if there is none. */
  nextMs(): number {
    return this.#refused.nextMs();
  }

  /**
   * A refused portion in halves, until one owner is left, who is then set aside. What others want as well is tried for them.
   *
   * @throws the refusal itself if removals alone were refused
   */
  #isolate(portion: Portion<K, V>, error: SeineError): Portion<K, V>[] {
    const [owner] = portion.owners;
    if (owner === undefined) throw error;
    if (portion.owners.length > 1) return halves(portion, (key) => this.#ownerOf(key));
    this.#refused.note(owner, error, this.#options.now());
    this.#options.events.refused(owner, error);
    return this.cut({ put: new Map([...portion.put].filter(([key]) => this.#ownerOf(key) !== owner)), remove: portion.remove });
  }

  /** For whom an entry is made: of several owners, the first one whom the target does not refuse. */
  #ownerOf(key: K): string {
    const owners = this.#options.desired.ownersOf(key);
    return owners.find((owner) => !this.#refused.has(owner)) ?? owners[0] ?? '';
  }
}
