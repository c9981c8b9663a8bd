import { setTimeout as sleep } from 'node:timers/promises';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Log } from '../../base/log/log.ts';
import type { Readiness } from './readiness.ts';

interface RetryOptions {
  /** Names the obstacle. */
  readonly what: string;
  readonly work: () => Promise<void>;
  readonly readiness: Readiness;
  readonly log: Log;
  readonly retryMs: number;
}

/**
 * Retries work that OVS or the kernel may refuse until it is accepted: an administrator may fix the cause, e.g. free a port number or allow
 * IPv6. Until then the node is not ready and reports the reason; an agent that exited could not.
 *
 * @throws SeineError `CANCELLED` if `signal` comes first, and every failure of `work` but `REFUSED`
 */
export async function retryUntilAccepted({ what, work, readiness, log, retryMs }: RetryOptions, signal: AbortSignal): Promise<void> {
  for (let lastReason = ''; ; ) {
    try {
      await work();
      readiness.clear(what);
      return;
    } catch (thrown) {
      const error = SeineError.from(thrown, what);
      if (error.code !== 'REFUSED') throw error;
      readiness.obstruct(what, 'starting', error.message);
      if (error.message !== lastReason) log.error('node setup failed; retrying', { what, cause: error.message });
      lastReason = error.message;
    }
    await sleep(retryMs, undefined, { signal }).catch((thrown: unknown) => {
      throw SeineError.from(thrown, what);
    });
  }
}
