import { Waiters } from '../../base/async/waiters.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import type { Expectation, OpenFlowSession } from '../connection/session.ts';

/** Exchange of many messages under consecutive transaction ids. */
export class RangeRun {
  readonly firstXid: number;
  /** Set once anything was sent that may have changed the switch. */
  sent = false;
  readonly #session: OpenFlowSession;
  readonly #expectation: Expectation;
  readonly #what: string;
  readonly #waiters: Waiters;
  #lost: SeineError | undefined;

  /** @param answered called with each message that arrives under one of `count` ids */
  constructor(session: OpenFlowSession, what: string, count: number, answered: (message: Uint8Array) => 'more' | 'done') {
    this.#session = session;
    this.#what = what;
    this.#waiters = new Waiters(what);
    this.firstXid = session.reserveXids(count);
    this.#expectation = {
      firstXid: this.firstXid,
      count,
      answered: (message) => {
        const state = answered(message);
        this.#waiters.poke();
        return state;
      },
      lost: (cause) => {
        this.#lost = cause;
        this.#waiters.poke();
      },
    };
    session.expect(this.#expectation);
  }

  get isLost(): boolean {
    return this.#lost !== undefined;
  }

  /** Waits until the window has room for this many bytes. @throws SeineError like `until` */
  async room(bytes: number, signal: AbortSignal): Promise<void> {
    try {
      if (signal.aborted || !this.#session.hasRoom(bytes)) await this.#session.room(bytes, signal);
    } catch (thrown) {
      throw this.#outcome(SeineError.from(thrown, this.#what), signal);
    }
  }

  /** @throws SeineError `UNAVAILABLE` or `CANCELLED`, with `context.sent` as it is then */
  async until(holds: () => boolean, signal: AbortSignal): Promise<void> {
    try {
      await this.#waiters.wait(() => {
        if (this.#lost !== undefined) throw this.#lost;
        return holds() ? true : undefined;
      }, signal);
    } catch (thrown) {
      throw this.#outcome(SeineError.from(thrown, this.#what), signal);
    }
  }

  /** Ends the exchange: no more answers are expected. */
  end(): void {
    this.#session.forget(this.#expectation);
  }

  #outcome(cause: SeineError, signal: AbortSignal): SeineError {
    const context = { sent: this.sent };
    if (this.#lost === undefined && signal.aborted) return new SeineError('CANCELLED', this.#what, { context });
    return new SeineError('UNAVAILABLE', `${this.#what}: connection lost`, { context, cause });
  }
}
