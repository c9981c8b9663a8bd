import { pause } from '../../base/async/pause.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Readiness } from './readiness.ts';

/** Interval between attempts (ms). An agent that ends releases the bridge first, and its journal and its socket some milliseconds later. */
const RETRY_MS = 50;

/**
 * Retries an operation that another agent may still block, until it succeeds, and reports meanwhile what it waits for.
 *
 * @param take throws `REFUSED` while another agent has the resource
 * @throws SeineError other errors of `take`; `CANCELLED`
 */
export async function retryWhileHeld<T>(take: () => Promise<T>, readiness: Readiness, log: Log, signal: AbortSignal): Promise<T> {
  const obstacle = 'handover';
  for (let reported = false; ; reported = true) {
    try {
      const taken = await take();
      readiness.clear(obstacle);
      return taken;
    } catch (thrown) {
      const error = SeineError.from(thrown, 'take over');
      if (error.code !== 'REFUSED') throw error;
      const reason = error.rawMessage;
      readiness.obstruct(obstacle, 'starting', reason);
      if (!reported) log.warn('waiting for another agent to release the bridge', { reason });
    }
    if (signal.aborted) throw new SeineError('CANCELLED', 'take over the bridge from another agent', { cause: signal.reason });
    await pause(RETRY_MS, signal);
  }
}
