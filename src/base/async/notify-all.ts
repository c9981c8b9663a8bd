import { SeineError } from '../errors/seine-error.ts';

/**
 * Calls every listener, even if one fails.
 *
 * @throws SeineError `INVARIANT` after all were called, if one of them threw: listeners must not throw, so any error is a bug, and must not
 * be mistaken for a failure of the notifier
 */
export function notifyAll<T>(listeners: Iterable<(news: T) => void>, news: T): void {
  let failure: { readonly thrown: unknown } | undefined;
  for (const listener of listeners) {
    try {
      listener(news);
    } catch (thrown) {
      failure ??= { thrown };
    }
  }
  if (failure === undefined) return;
  const cause = SeineError.from(failure.thrown, 'listener');
  throw new SeineError('INVARIANT', `a listener failed: ${cause.message}`, { context: cause.context, cause });
}
