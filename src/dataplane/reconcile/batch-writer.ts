import { SeineError } from '../../base/errors/seine-error.ts';
import { halves, type PlanBatch, planBatches } from './plan-batch.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import { type OwnerFailure, Refusals } from './refusals.ts';
import type { Plan } from './target.ts';

type BatchWriterOptions<K extends string, V> = Pick<
  ReconcilerOptions<K, V>,
  'name' | 'desired' | 'target' | 'batchSize' | 'depthOf' | 'events' | 'now' | 'refusals' | 'sideBySide'
>;

/** The target's known content while it is written to, and what was written. */
export interface WriteProgress<K, V> {
  readonly actual: Map<K, V>;
  /** `remembered`: a refusal may only mean that the remembered state is out of date. */
  readonly source: 'observed' | 'remembered';
  /** Whether another process has changed the target since it was observed: a refusal may be about that. */
  readonly isOutdated?: () => boolean;
  put: number;
  removed: number;
}

/**
 * Writes to a target in batches and isolates the owners whose entries it refuses: one refused owner must not block the others,
 * and is retried with growing back-off.
 */
export class BatchWriter<K extends string, V> {
  readonly #options: BatchWriterOptions<K, V>;
  readonly #refused = new Refusals();

  constructor(options: BatchWriterOptions<K, V>) {
    this.#options = options;
  }

  /** @param groups keys that have to change at once @param size of a batch, in entries; the usual one if left out */
  cut(plan: Plan<K, V>, groups: readonly ReadonlySet<K>[] = [], size = this.#options.batchSize): PlanBatch<K, V>[] {
    return planBatches(plan, (key) => this.#ownerOf(key), size, this.#options.depthOf, groups);
  }

  /**
   * Writes the batches in order. What the target took is noted in `writing`.
   *
   * @throws SeineError `REFUSED` if the observed state may be out of date (it was remembered, changed by others since, or removals alone were refused);
   *   otherwise as the target's `apply`. What is in `writing` was written.
   */
  async write(all: readonly PlanBatch<K, V>[], writing: WriteProgress<K, V>, signal: AbortSignal): Promise<void> {
    const { sideBySide = 1 } = this.#options;
    const queue = [...all];
    while (queue.length > 0) {
      const group = queue.splice(0, sideBySide);
      const ended = await Promise.allSettled(group.map((batch) => this.#writeOne(batch, writing, signal)));
      for (const result of ended) if (result.status === 'rejected') throw result.reason;
      queue.unshift(...ended.flatMap((result) => (result.status === 'fulfilled' ? result.value : [])));
    }
  }

  /** @returns what is to be written in its place, if it was refused */
  async #writeOne(batch: PlanBatch<K, V>, writing: WriteProgress<K, V>, signal: AbortSignal): Promise<readonly PlanBatch<K, V>[]> {
    try {
      await this.#options.target.apply(batch, signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, `apply to ${this.#options.name}`);
      const isDoubtful = writing.source === 'remembered' || writing.isOutdated?.() === true;
      if (error.code !== 'REFUSED' || (isDoubtful && this.#options.refusals !== 'certain')) throw error;
      return this.#isolate(batch, error);
    }
    for (const owner of batch.owners) this.clearRefusal(owner);
    for (const [key, value] of batch.put) writing.actual.set(key, value);
    for (const key of batch.remove) writing.actual.delete(key);
    writing.put += batch.put.size;
    writing.removed += batch.remove.size;
    return [];
  }

  /** Call when this owner's wanted entries changed or were written. @returns whether it was refused */
  clearRefusal(owner: string): boolean {
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

  /** True for a key whose owner was refused and is backed off. */
  isBackedOff(key: K, nowMs: number): boolean {
    if (this.#refused.isEmpty) return false; // asked of each key that is to be put, whose owner may have to be made
    return this.#refused.isBackedOff(this.#ownerOf(key), nowMs);
  }

  /** When the next refused owner is retried; `Infinity` if there is none. */
  nextMs(): number {
    return this.#refused.nextMs();
  }

  /**
   * Halves a refused batch until one owner is left, which is then backed off. Keys that other owners want too are tried for those.
   *
   * @throws the refusal itself if removals alone were refused
   */
  #isolate(batch: PlanBatch<K, V>, error: SeineError): PlanBatch<K, V>[] {
    const [owner] = batch.owners;
    if (owner === undefined) throw error;
    if (batch.owners.length > 1) return halves(batch, (key) => this.#ownerOf(key));
    this.#refused.note(owner, error, this.#options.now());
    this.#options.events.refused(owner, error);
    return this.cut({ put: new Map([...batch.put].filter(([key]) => this.#ownerOf(key) !== owner)), remove: batch.remove });
  }

  /** The owner that an entry is written for: of several, the first one that is not refused. */
  #ownerOf(key: K): string {
    const owners = this.#options.desired.ownersOf(key);
    const [only] = owners;
    if (only !== undefined && owners.length === 1) return only;
    return owners.find((owner) => !this.#refused.has(owner)) ?? owners[0] ?? '';
  }
}
