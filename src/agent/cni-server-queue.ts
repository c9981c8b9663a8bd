import { abortable } from '../async/abortable.ts';
import { SeineError } from '../errors/seine-error.ts';

/** A runtime that has more calls for one container under way than this is repeating itself. */
const waitingMax = 32;

interface Line {
  readonly tail: Promise<void>;
  readonly length: number;
}

/** Work with equal keys one after another, in the order it came; with different keys side by side. */
export class KeyedQueue {
  readonly #lines = new Map<string, Line>();

  isBusy(key: string): boolean {
    return this.#lines.has(key);
  }

  /** @throws SeineError `CANCELLED` if `signal` comes before the turn does, `UNAVAILABLE` if too many wait; and what `work` throws */
  async run<T>(key: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const before = this.#lines.get(key);
    if (before && before.length >= waitingMax) throw new SeineError('UNAVAILABLE', `${before.length} calls for ${key} are waiting`);
    let finish: () => void = () => {};
    const mine = new Promise<void>((resolve) => (finish = resolve));
    // Who comes after us waits for those before us as well, so that giving up does not let them overtake.
    const tail = before ? before.tail.then(() => mine) : mine;
    this.#lines.set(key, { tail, length: (before?.length ?? 0) + 1 });
    try {
      if (before) await abortable(before.tail, signal);
      return await work();
    } finally {
      finish();
      this.#leave(key);
    }
  }

  #leave(key: string): void {
    const line = this.#lines.get(key);
    if (!line || line.length === 1) this.#lines.delete(key);
    else this.#lines.set(key, { tail: line.tail, length: line.length - 1 });
  }
}
