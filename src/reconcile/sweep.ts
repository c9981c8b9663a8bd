import { idle } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Reconciler } from './reconciler.ts';

/** Shortest and longest interval between two sweeps (ms). */
const LEAST_MS = 4_000;
const MOST_MS = 60_000;
/** At most this part of the time goes into sweeps: a fiftieth. */
const SHARE = 50;

/**
 * Observes everything a target holds, periodically until `signal`: foreign changes are usually announced by an event, and this is
 * for those that are not. A node that is quick to observe is swept every four seconds, a large one less often.
 *
 * @throws SeineError `INVARIANT`; every other failure is left to the reconciler, which fails likewise
 */
export async function sweepPeriodically<K extends string, V>(reconciler: Reconciler<K, V>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const restMs = Math.min(MOST_MS, Math.max(LEAST_MS, SHARE * reconciler.observeTookMs));
    await idle(restMs, signal);
    if (signal.aborted) return;
    try {
      await reconciler.sweep(signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'sweep');
      if (error.remedy === 'crash') throw error;
    }
  }
}
