import type { SeineError } from '../errors/seine-error.ts';
import type { DesiredState } from './desired-state.ts';
import type { Target } from './target.ts';

export interface ReconcilerOptions<K extends string, V> {
  readonly name: string;
  readonly desired: DesiredState<K, V>;
  readonly target: Target<K, V>;
  readonly equal: (a: V, b: V) => boolean;
  /** How long to wait after the nth failure in a row, in ms. */
  readonly backoffMs: (failures: number) => number;
  /** Most entries that one `apply` gets, unless one owner alone wants more. */
  readonly portionSize: number;
  readonly events: ReconcilerEvents<K>;
  /** Milliseconds, from any fixed moment; never goes back. */
  readonly now: () => number;
}

/** What the agent logs and counts. Called synchronously; must not throw. */
export interface ReconcilerEvents<K> {
  round(result: { readonly put: number; readonly removed: number; readonly tookMs: number }): void;
  failure(error: SeineError): void;
  /** The first round that did not fail after some that did. */
  recovered?(): void;
  /** An owner's wish was refused by the target and is left out until it changes or its time comes again. */
  refused(owner: string, error: SeineError): void;
  /** An owner whose wish was refused got it, or wishes for something else. */
  accepted?(owner: string): void;
  /** Entries that somebody else changed, found by observing. */
  drift(keys: readonly K[]): void;
  /** What somebody else had changed is as wanted again, so long (ms) after we were told that something may have changed. */
  repaired(tookMs: number): void;
}
