import { SeineError } from '../errors/seine-error.ts';

/**
 * Waits for `work`, but not longer than until `signal`. The work itself goes on; its outcome is then ignored, a failure
 * included.
 *
 * @throws SeineError `CANCELLED` if `signal` comes first, otherwise what `work` throws
 */
export async function abortable<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  let onAbort: (() => void) | undefined;
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(new SeineError('CANCELLED', 'the caller stopped waiting', { cause: signal.reason }));
    if (signal.aborted) onAbort();
    else signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([work, aborted]);
  } finally {
    if (onAbort) signal.removeEventListener('abort', onAbort);
  }
}
