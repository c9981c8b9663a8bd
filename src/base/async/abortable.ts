import { SeineError } from '../errors/seine-error.ts';

/**
 * Waits for `work`, at most until `signal` aborts. The work itself continues; its outcome, including an error, is then ignored.
 *
 * @throws SeineError `CANCELLED` if `signal` aborts first, otherwise the error of `work`
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
