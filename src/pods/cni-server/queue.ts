import { abortable } from '../../base/async/abortable.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Maximum number of waiting calls for one key. A runtime with more calls for one container is repeating itself. */
const waitingMax = 32;

interface KeyQueue {
  readonly tail: Promise<void>;
  readonly length: number;
}

/** Queue that runs work with equal keys one after another, in order of arrival, and work with different keys concurrently. */
export class KeyedQueue {
  readonly #lines = new Map<string, KeyQueue>();

  isBusy(key: string): boolean {
    return this.#lines.has(key);
  }

  /**
   * Waits for the turn of `key`.
   *
   * @returns function that ends the turn; to be called once, whatever the result of the work
   * @throws SeineError `CANCELLED` if `signal` aborts before the turn, `UNAVAILABLE` if too many calls wait
   */
  async turn(key: string, signal: AbortSignal): Promise<() => void> {
    const before = this.#lines.get(key);
    if (before && before.length >= waitingMax) throw new SeineError('UNAVAILABLE', `${before.length} calls for ${key} are waiting`);
    const { promise: mine, resolve: finish } = Promise.withResolvers<void>();
    // A later call waits for all calls before this one too, so that it does not overtake them if this one is cancelled.
    const tail = before ? before.tail.then(() => mine) : mine;
    this.#lines.set(key, { tail, length: (before?.length ?? 0) + 1 });
    const end = (): void => {
      finish();
      this.#leave(key);
    };
    try {
      if (before) await abortable(before.tail, signal);
      return end;
    } catch (thrown) {
      end();
      throw thrown;
    }
  }

  #leave(key: string): void {
    const line = this.#lines.get(key);
    if (!line || line.length === 1) this.#lines.delete(key);
    else this.#lines.set(key, { tail: line.tail, length: line.length - 1 });
  }
}
