import { SeineError } from '../../base/errors/seine-error.ts';
import { halves, type PlanBatch, planBatches } from './plan-batch.ts';
import type { ReconcilerOptions } from './reconciler-options.ts';
import { type OwnerFailure, Refusals } from './refusals.ts';
import type { Plan } from './target.ts';

type BatchWriterOptions<K extends string, V> = Pick<
  ReconcilerOptions<K, V>,
  'name' | 'desired' | 'target' | 'batchSize' | 'depthOf' | 'events' | 'now' | 'refusals' | 'sideBySide'
>;

/** Known content of a target while it is written to, and the changes made so far. */
export interface WriteProgress<K, V> {
  readonly actual: Map<K, V>;
  /** Origin of `actual`. With `remembered`, a refusal may only mean that the remembered state is out of date. */
  readonly source: 'observed' | 'remembered';
  /** Reports whether another process has changed the target since it was observed: a refusal may be caused by that. */
  readonly isOutdated?: () => boolean;
  put: number;
  removed: number;
}

/**
 * Writes to a target in batches and isolates owners whose entries the target refuses: a refused owner must not block the others, and is
 * retried with growing back-off.
 */
export class BatchWriter<K extends string, V> {
  readonly #options: BatchWriterOptions<K, V>;
  readonly #refused = new Refusals();

  constructor(options: BatchWriterOptions<K, V>) {
    this.#options = options;
  }

  /** @param groups keys that have to change atomically @param size entries per batch; the configured size if omitted */
  cut(plan: Plan<K, V>, groups: readonly ReadonlySet<K>[] = [], size = this.#options.batchSize): PlanBatch<K, V>[] {
    return planBatches(plan, (key) => this.#ownerOf(key), size, this.#options.depthOf, groups);
  }

  /**
   * Writes the batches in order. Accepted changes are recorded in `writing`.
   *
   * @throws SeineError `REFUSED` if the observed state may be out of date (it was remembered, another process has changed the target since,
   * or only removals were refused); otherwise like the target's `apply`. Changes recorded in `writing` were written.
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

  /** @returns the batches to write instead, if the target refused this one */
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

  /** Clears an owner's refusal. Call when its desired entries have changed or were written. @returns whether it was refused */
  clearRefusal(owner: string): boolean {
    const was = this.#refused.delete(owner);
    if (was) this.#options.events.accepted?.(owner);
    return was;
  }

  /** Clears refusals of owners whose entries are all present by now, written by another process: the agent will not write them. */
  clearMet(isMet: (owner: string) => boolean): void {
    for (const { owner } of this.refusals()) if (isMet(owner)) this.clearRefusal(owner);
  }

  refusalOf(owner: string): OwnerFailure | undefined {
    return this.#refused.get(owner);
  }

  refusals(): readonly OwnerFailure[] {
    return this.#refused.list();
  }

  /** Reports whether the key's owner was refused and is backed off. */
  isBackedOff(key: K, nowMs: number): boolean {
    if (this.#refused.isEmpty) return false; // called for each key to put; may have to look up its owner
    return this.#refused.isBackedOff(this.#ownerOf(key), nowMs);
  }

  /** Time of the next retry of a refused owner; `Infinity` if there is none. */
  nextMs(): number {
    return this.#refused.nextMs();
  }

  /**
   * Halves a refused batch until one owner is left, which is then backed off. Keys that other owners also want are retried for those.
   *
   * @throws the refusal itself if only removals were refused
   */
  #isolate(batch: PlanBatch<K, V>, error: SeineError): PlanBatch<K, V>[] {
    const [owner] = batch.owners;
    if (owner === undefined) throw error;
    if (batch.owners.length > 1) return halves(batch, (key) => this.#ownerOf(key));
    this.#refused.note(owner, error, this.#options.now());
    this.#options.events.refused(owner, error);
    return this.cut({ put: new Map([...batch.put].filter(([key]) => this.#ownerOf(key) !== owner)), remove: batch.remove });
  }

  /** Returns the owner for which an entry is written: the first that is not refused, if there are several. */
  #ownerOf(key: K): string {
    const owners = this.#options.desired.ownersOf(key);
    const [only] = owners;
    if (only !== undefined && owners.length === 1) return only;
    return owners.find((owner) => !this.#refused.has(owner)) ?? owners[0] ?? '';
  }
}
