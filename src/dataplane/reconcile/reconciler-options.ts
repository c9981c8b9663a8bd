import type { SeineError } from '../../base/errors/seine-error.ts';
import type { DesiredState } from './desired-state.ts';
import type { EntryPoints } from './refill.ts';
import type { Target } from './target.ts';

export interface ReconcilerOptions<K extends string, V> {
  readonly name: string;
  readonly desired: DesiredState<K, V>;
  readonly target: Target<K, V>;
  readonly equal: (a: V, b: V) => boolean;
  /** Delay after the nth consecutive failure (ms). */
  readonly backoffMs: (failures: number) => number;
  /** Maximum number of entries of one `apply`, unless a single owner wants more. */
  readonly batchSize: number;
  /** The same while urgent owners arrive, who wait for a running batch of others; `batchSize` if omitted. */
  readonly batchSizeWithUrgent?: number;
  /**
   * Time for which urgent changes are gathered if they come shortly after others were written (ms); a round then also begins one turn of
   * the event loop later. 0 if omitted. For a target where one write costs as much as many; with other targets, each change would wait for
   * the slowest of its batch.
   */
  readonly gatherMs?: number;
  /**
   * Time after a round that has written, before the next one begins (ms): changes that arrive meanwhile are written together. For a target
   * whose callers can wait, and where each write costs much, however few changes it has. 0 if omitted.
   */
  readonly restMs?: number;
  /** Number of batches written concurrently, in any order; 1 if omitted. */
  readonly sideBySide?: number;
  /**
   * Position of an entry on a packet's path, counted from the front: deeper entries are put first and removed last. If omitted, the order
   * does not matter.
   */
  readonly depthOf?: (key: K) => number;
  /** Entries of an emptied target that are put last. None if omitted. */
  readonly entryPoints?: EntryPoints<K, V>;
  readonly events: ReconcilerEvents<K>;
  /**
   * Meaning of a refusal. `ifObserved` (the default): it may only mean that the remembered state is out of date, and counts once the target
   * was observed again. `certain`: the target checks its state itself before it writes.
   */
  readonly refusals?: 'ifObserved' | 'certain';
  /** Returns the reason why the target must not be written to now; undefined if it may be. */
  readonly blockedBy?: () => string | undefined;
  /** Monotonic time (ms). */
  readonly now: () => number;
}

/** Events that the agent logs and counts. Called synchronously; must not throw. */
export interface ReconcilerEvents<K> {
  round(result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  failure(error: SeineError): void;
  /** Called when urgent changes were written. The round that they are part of may last long after. */
  urgent?(): void;
  /** Called after the first successful round that follows failed ones. */
  recovered?(): void;
  /** Called when the target refuses an owner's entries; they are left out until they change or the back-off ends. */
  refused(owner: string, error: SeineError): void;
  /** Called when a refused owner's entries were accepted, or it wants other entries. */
  accepted?(owner: string): void;
  /** Called with foreign changes, found by observing. */
  drift(keys: readonly K[]): void;
  /** Called after `drift` with the desired entries that are missing: another process has removed them. */
  lost?(keys: readonly K[]): void;
  /** Called at the end of each complete round: the target has what was desired when it began, refused owners excepted. */
  complete?(): void;
  /** Called when foreign changes are repaired. @param tookMs time since the event that announced them */
  repaired(tookMs: number): void;
}
