import { idle } from '../async/pause.ts';
import { SeineError } from '../errors/seine-error.ts';
import type { Reconciler } from './reconciler.ts';

/** A sweep comes so long after the last one at the earliest (ms), and at the latest. */
const LEAST_MS = 4_000;
const MOST_MS = 60_000;
/** And takes at most this part of the time: a fiftieth. */
const SHARE = 50;

/**
 * Looks at everything a target holds, again and again until `signal`: what others change is usually heard at once, and this is
 * for what is not. A node that is quick to look at is swept every four seconds, a large one less often.
 *
 * @throws SeineError `INVARIANT`; every other failure is left to the reconciler, which meets it as well
 */
export async function sweepAgainAndAgain<K extends string, V>(reconciler: Reconciler<K, V>, signal: AbortSignal): Promise<void> {
  while (!signal.aborted) {
    const restMs = Math.min(MOST_MS, Math.max(LEAST_MS, SHARE * reconciler.lookTookMs));
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
