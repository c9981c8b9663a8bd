import { Waiters } from '../base/async/waiters.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import type { AnyChange, Replica } from './replica.ts';

/**
 * Yields the changes of a replica after the call, for a consumer of any speed.
 *
 * Changes of one row that the consumer has not taken yet are merged, from the oldest `before` to the newest `after`, and dropped if they
 * cancel out. So the queue is bounded by the number of rows, and no change is lost.
 */
export function followChanges(replica: Replica, signal: AbortSignal): AsyncGenerator<readonly AnyChange[], void, void> {
  const pending = new Map<string, AnyChange>();
  const bell = new Waiters('changes');
  const own = new AbortController();
  replica.listen(
    (changes) => {
      for (const change of changes) add(pending, change);
      bell.poke();
    },
    AbortSignal.any([signal, own.signal]),
  );
  return deliver(pending, { bell, own, signal });
}

interface Feed {
  readonly bell: Waiters;
  /** Removes the listener when the consumer leaves the loop. */
  readonly own: AbortController;
  readonly signal: AbortSignal;
}

async function* deliver(pending: Map<string, AnyChange>, { bell, own, signal }: Feed): AsyncGenerator<readonly AnyChange[], void, void> {
  try {
    while (!signal.aborted) {
      await bell.wait(() => (pending.size > 0 ? true : undefined), signal);
      const changes = [...pending.values()];
      pending.clear();
      yield changes;
    }
  } catch (thrown) {
    if (!(thrown instanceof SeineError && thrown.code === 'CANCELLED')) throw thrown;
  } finally {
    own.abort();
  }
}

function add(pending: Map<string, AnyChange>, change: AnyChange): void {
  const key = `${change.table}/${change.uuid}`;
  const earlier = pending.get(key);
  if (earlier === undefined) pending.set(key, change);
  else if (earlier.before === undefined && change.after === undefined) pending.delete(key);
  else pending.set(key, { ...change, before: earlier.before });
}
