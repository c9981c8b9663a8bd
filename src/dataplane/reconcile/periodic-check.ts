import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Shortest and longest pause between two checks (ms). */
const LEAST_MS = 4_000;
const MOST_MS = 60_000;
/** Pause after a check that could not be completed (ms). */
const AGAIN_MS = 1_000;
/** Maximum share of time spent in checks: one fiftieth. */
const SHARE = 50;

/** Subset of a reconciler that periodic checks use. */
interface Swept {
  readonly lastCheck: { readonly ageMs: number; readonly tookMs: number } | undefined;
  sweep(signal: AbortSignal): Promise<void>;
}

/** Returns the pause between the end of a full check and the beginning of the next (ms). */
export function restMs(tookMs: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, SHARE * tookMs));
}

/**
 * Observes the whole content of a target periodically until `signal`. Events announce most foreign changes; this finds the others. A node
 * that is observed quickly is checked every four seconds, a large one less often. A round that has just observed everything counts as a
 * check.
 *
 * @throws SeineError `INVARIANT`; every other failure is left to the reconciler, which fails in the same way
 */
export async function sweepPeriodically(reconciler: Swept, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    // A slow check may be followed by a quick one, whose pause ends sooner.
    await idle(Math.min(LEAST_MS, untilDueMs(reconciler)), signal);
    if (signal.aborted) return;
    if (untilDueMs(reconciler) > 0) continue;
    try {
      await reconciler.sweep(signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'sweep');
      if (error.remedy === 'crash') throw error;
    }
    // It failed, or the reconciler itself is observing now.
    if (untilDueMs(reconciler) === 0) await idle(AGAIN_MS, signal);
  }
}

/**
 * Returns the time until the next check is due (ms). Before the first observation it is the shortest pause: the reconciler is about to make
 * one itself.
 */
export function untilDueMs({ lastCheck }: Pick<Swept, 'lastCheck'>): number {
  return lastCheck === undefined ? LEAST_MS : Math.max(0, restMs(lastCheck.tookMs) - (lastCheck.ageMs - lastCheck.tookMs));
}
