import { abortable } from '../../base/async/abortable.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

/** A runtime that has more calls for one container under way than this is repeating itself. */
const waitingMax = 32;

interface KeyQueue {
  readonly tail: Promise<void>;
  readonly length: number;
}

/** Work with equal keys one after another, in the order it came; with different keys side by side. */
export class KeyedQueue {
  readonly #lines = new Map<string, KeyQueue>();

  isBusy(key: string): boolean {
    return this.#lines.has(key);
  }

  /**
   * Waits for the turn of `key`.
   *
   * @returns what ends it; to be called once, whatever becomes of the work
   * @throws SeineError `CANCELLED` if `signal` comes before the turn does, `UNAVAILABLE` if too many wait
   */
  async turn(key: string, signal: AbortSignal): Promise<() => void> {
    const before = this.#lines.get(key);
    if (before && before.length >= waitingMax) throw new SeineError('UNAVAILABLE', `${before.length} calls for ${key} are waiting`);
    const { promise: mine, resolve: finish } = Promise.withResolvers<void>();
    // A later call waits for those before this one as well, so that giving up does not let it overtake.
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
