/** Timer that can be restarted, as the abort signal of a request. */
export class Watchdog {
  readonly #controller = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  get expired(): boolean {
    return this.#controller.signal.aborted;
  }

  /** Aborts in `ms` unless restarted; `why` is the error's text. */
  arm(ms: number, why: string): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#controller.abort(new DOMException(why, 'TimeoutError')), ms);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
