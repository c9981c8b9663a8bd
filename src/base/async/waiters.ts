import { SeineError } from '../errors/seine-error.ts';

/** Callers that wait for a condition. The owner of the state calls `poke` after a change. */
export class Waiters {
  /** Checks of the waiting callers; each resolves its caller if its condition is met. */
  readonly #looks = new Set<() => void>();
  readonly #what: string;

  /** Creates a set of waiters. @param what subject of the wait, for messages */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#looks.size;
  }

  /**
   * Resolves with the result of `check` as soon as it is not `undefined`, at once if possible.
   *
   * @throws SeineError `CANCELLED` if the signal aborts first; and every error of `check`
   */
  async wait<T>(check: () => T | undefined, signal: AbortSignal): Promise<T> {
    if (signal.aborted) throw this.#cancelled(signal);
    const already = check();
    if (already !== undefined) return already;
    let stopWaiting = (): void => {};
    try {
      return await new Promise<T>((resolve, reject) => {
        const look = (): void => {
          try {
            const found = check();
            if (found !== undefined) resolve(found);
          } catch (thrown) {
            reject(thrown);
          }
        };
        const giveUp = (): void => reject(this.#cancelled(signal));
        stopWaiting = () => {
          this.#looks.delete(look);
          signal.removeEventListener('abort', giveUp);
        };
        this.#looks.add(look);
        signal.addEventListener('abort', giveUp, { once: true });
      });
    } finally {
      stopWaiting();
    }
  }

  /** Makes every waiter check again. */
  poke(): void {
    for (const look of [...this.#looks]) look();
  }

  #cancelled(signal: AbortSignal): SeineError {
    return new SeineError('CANCELLED', `no longer waiting for ${this.#what}`, { cause: signal.reason });
  }
}
