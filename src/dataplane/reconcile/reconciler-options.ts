import type { SeineError } from '../../base/errors/seine-error.ts';
import type { DesiredState } from './desired-state.ts';
import type { FrontEntries } from './refill.ts';
import type { Target } from './target.ts';

export interface ReconcilerOptions<K extends string, V> {
  readonly name: string;
  readonly desired: DesiredState<K, V>;
  readonly target: Target<K, V>;
  readonly equal: (a: V, b: V) => boolean;
  /** How long to wait after the nth failure in a row, in ms. */
  readonly backoffMs: (failures: number) => number;
  /** Most entries of one `apply`, unless one owner alone wants more. */
  readonly batchSize: number;
  /** The same while urgent owners come, who wait for a batch of others that is under way; as ever if left out. */
  readonly batchSizeBesideUrgent?: number;
  /**
   * Urgent changes that come within this after others were written are gathered until it is over (ms), and a round begins a turn of the loop later;
   * 0 if left out. For a target to which each write costs as much as many: with others, each waits for the slowest of those that it was gathered with.
   */
  readonly gatherMs?: number;
  /** Batches that are written at once, in any order; 1 if left out. */
  readonly sideBySide?: number;
  /** Where an entry lies on the way of a packet, counted from the front: what lies behind is put first and removed last. Left out: anywhere. */
  readonly depthOf?: (key: K) => number;
  /** What of an emptied target is put last. Left out: nothing. */
  readonly front?: FrontEntries<K, V>;
  readonly events: ReconcilerEvents<K>;
  /**
   * What a refusal says. `ifObserved` (if left out): it may only mean that the remembered state is out of date, and counts once the target
   * was observed anew. `certain`: the target looks itself before it writes.
   */
  readonly refusals?: 'ifObserved' | 'certain';
  /** Why nothing may be written to the target now; undefined if it may. */
  readonly blockedBy?: () => string | undefined;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** Events that the agent logs and counts. Called synchronously; must not throw. */
export interface ReconcilerEvents<K> {
  round(result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  failure(error: SeineError): void;
  /** The first round without failure after some that failed. */
  recovered?(): void;
  /** The target refused an owner's entries; they are left out until they change or the back-off ends. */
  refused(owner: string, error: SeineError): void;
  /** A refused owner's entries were taken, or it wants something else. */
  accepted?(owner: string): void;
  /** Foreign changes, found by observing. */
  drift(keys: readonly K[]): void;
  /** Foreign changes are repaired, so long (ms) after the event that announced them. */
  repaired(tookMs: number): void;
}
