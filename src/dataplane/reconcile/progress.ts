import { EventEmitter, once } from 'node:events';
import { setImmediate as nextLoopTurn } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Time for which owners are looked at without a break (ms). */
const SLICE_MS = 8;

/** Revisions that a target is known to have applied, for callers that wait. */
export class Progress {
  readonly #name: string;
  readonly #why: () => SeineError | undefined;
  readonly #settled = new EventEmitter().setMaxListeners(0);
  #realized = -1;
  #confirmed = -1;
  #made = 0;
  /** Owners that are ahead of the common revision. */
  readonly #ahead = new Map<string, number>();

  /** @param name of the target, for messages @param why called when a caller gives up: the error that delays the target, or undefined */
  constructor(name: string, why: () => SeineError | undefined) {
    this.#name = name;
    this.#why = why;
  }

  /** Newest revision that the target has applied for all owners; -1 before the first. */
  get realized(): number {
    return this.#realized;
  }

  /** Records a completed round. @param invalidated the newest invalidation that it has answered @param round its number; increasing */
  reached(revision: number, invalidated: number, round: number): void {
    this.#realized = revision;
    this.#confirmed = invalidated;
    this.#made = round;
    for (const [owner, ahead] of this.#ahead) if (ahead <= revision) this.#ahead.delete(owner);
    this.#settled.emit('round');
    this.#settled.emit('part');
  }

  /** Records that the entries of these owners at `revision` are applied; those of others may not be. */
  reachedFor(owners: Iterable<string>, revision: number): void {
    for (const owner of owners) this.#ahead.set(owner, revision);
    this.#settled.emit('round');
  }

  /** Records a completed part of a round. */
  advanced(): void {
    this.#settled.emit('part');
  }

  /** Discards the progress of single owners: the target was replaced. */
  fallBack(): void {
    this.#ahead.clear();
  }

  async untilRealized(revision: number, signal: AbortSignal): Promise<void> {
    while (this.#realized < revision) await this.#next(signal);
  }

  async untilRealizedFor(owner: string, revision: number, signal: AbortSignal): Promise<void> {
    while (Math.max(this.#realized, this.#ahead.get(owner) ?? -1) < revision) await this.#next(signal);
  }

  /** Resolves once `isMet` was true for each of these owners. It is evaluated again after each part of a round. */
  async untilAll(owners: Iterable<string>, isMet: (owner: string) => boolean, signal: AbortSignal): Promise<void> {
    const missing = new Set(owners);
    /** Deletes those that are met, up to the first that is not, or until the slice is used up. */
    const look = (): 'met' | 'missing' | 'unfinished' => {
      const endMs = performance.now() + SLICE_MS;
      for (const owner of missing) {
        if (!isMet(owner)) return 'missing'; // evaluated often, and a hundred thousand may follow
        missing.delete(owner);
        if (performance.now() >= endMs) return 'unfinished';
      }
      return 'met';
    };
    for (let found = look(); found !== 'met'; found = look()) {
      if (found === 'missing') await this.#next(signal, 'part');
      else await nextLoopTurn();
    }
  }

  async untilConfirmed(invalidated: number, signal: AbortSignal): Promise<void> {
    while (this.#confirmed < invalidated) await this.#next(signal);
  }

  /** @param round number of a round; a later one also satisfies it */
  async untilMade(round: number, signal: AbortSignal): Promise<void> {
    while (this.#made < round) await this.#next(signal);
  }

  async #next(signal: AbortSignal, event: 'round' | 'part' = 'round'): Promise<void> {
    try {
      await once(this.#settled, event, { signal });
    } catch (thrown) {
      const reason = this.#why();
      throw new SeineError('CANCELLED', `waiting for ${this.#name}${reason === undefined ? '' : `: ${reason.message}`}`, { cause: thrown });
    }
  }
}
