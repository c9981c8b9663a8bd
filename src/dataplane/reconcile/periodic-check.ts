import { idle } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Shortest and longest rest between two looks (ms). */
const LEAST_MS = 4_000;
const MOST_MS = 60_000;
/** After a look that could not be finished (ms). */
const AGAIN_MS = 1_000;
/** At most this part of the time goes into looks: a fiftieth. */
const SHARE = 50;

/** What is looked at, of a reconciler. */
interface Swept {
  readonly lastLook: { readonly ageMs: number; readonly tookMs: number } | undefined;
  sweep(signal: AbortSignal): Promise<void>;
}

/** From the end of a look at everything a target holds to the beginning of the next (ms). */
export function restMs(tookMs: number): number {
  return Math.min(MOST_MS, Math.max(LEAST_MS, SHARE * tookMs));
}

/**
 * Observes everything a target holds, periodically until `signal`: foreign changes are usually announced by an event, and this is
 * for those that are not. A node that is quick to observe is swept every four seconds, a large one less often. A round that has just
 * looked at everything counts as well.
 *
 * @throws SeineError `INVARIANT`; every other failure is left to the reconciler, which fails likewise
 */
export async function sweepPeriodically(reconciler: Swept, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    // A look that took long may be followed by a quick one, whose rest is over sooner.
    await idle(Math.min(LEAST_MS, untilDueMs(reconciler)), signal);
    if (signal.aborted) return;
    if (untilDueMs(reconciler) > 0) continue;
    try {
      await reconciler.sweep(signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'sweep');
      if (error.remedy === 'crash') throw error;
    }
    // It failed, or the reconciler itself is looking now.
    if (untilDueMs(reconciler) === 0) await idle(AGAIN_MS, signal);
  }
}

/** While nothing was looked at yet the reconciler itself is about to. */
export function untilDueMs({ lastLook }: Pick<Swept, 'lastLook'>): number {
  return lastLook === undefined ? LEAST_MS : Math.max(0, restMs(lastLook.tookMs) - (lastLook.ageMs - lastLook.tookMs));
}
