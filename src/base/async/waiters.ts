import { SeineError } from '../errors/seine-error.ts';

/** Callers that wait until something holds. The owner of the state calls `poke` after a change. */
export class Waiters {
  /** Each settles its caller if it can. */
  readonly #looks = new Set<() => void>();
  readonly #what: string;

  /** @param what the callers wait for, for messages */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#looks.size;
  }

  /**
   * Resolves with the result of `check` as soon as it is not `undefined`; at once if it is not now.
   *
   * @throws SeineError `CANCELLED` if the signal comes first; and every error of `check`.
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

  /** Has every waiter check again. */
  poke(): void {
    for (const look of [...this.#looks]) look();
  }

  #cancelled(signal: AbortSignal): SeineError {
    return new SeineError('CANCELLED', `no longer waiting for ${this.#what}`, { cause: signal.reason });
  }
}
