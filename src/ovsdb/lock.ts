import { Waiters } from '../base/async/waiters.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { isObject } from './json-rpc.ts';
import type { JsonRpcSession } from './session.ts';

/** `queue` waits for the lock; `steal` takes it from its owner. A client that stole it waits in the queue after a reconnect. */
export type LockMode = 'queue' | 'steal';

/**
 * Lock of the server, requested in every session until it is released.
 *
 * A lock ends with its owner's session, so it may be lost at any time: changes that require the lock belong into a transaction with
 * `assertLock`. A client whose lock is stolen goes back to the queue.
 *
 * Source: RFC 7047 sections 4.1.8 to 4.1.10.
 */
export class Lock {
  readonly name: string;
  readonly #waiters: Waiters;
  readonly #onRelease: () => void;
  #mode: LockMode;
  #held = false;
  #released = false;
  #session: JsonRpcSession | undefined;

  constructor(name: string, mode: LockMode, onRelease: () => void) {
    this.name = name;
    this.#mode = mode;
    this.#waiters = new Waiters(`OVSDB lock ${name}`);
    this.#onRelease = onRelease;
  }

  get held(): boolean {
    return this.#held;
  }

  /** @throws SeineError `CANCELLED` if the signal is aborted first. */
  async whenHeld(signal: AbortSignal): Promise<void> {
    await this.#waiters.wait(() => (this.#held ? true : undefined), signal);
  }

  /** @throws SeineError `CANCELLED` if the signal is aborted first. */
  async whenLost(signal: AbortSignal): Promise<void> {
    await this.#waiters.wait(() => (this.#held ? undefined : true), signal);
  }

  /** Releases the lock, and no longer requests it. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#set(false);
    this.#tell('unlock');
    this.#onRelease();
  }

  /** Called with each new session. */
  connected(session: JsonRpcSession): void {
    if (this.#session === session) return;
    this.#session = session;
    this.#ask();
  }

  disconnected(): void {
    this.#session = undefined;
    this.#set(false);
  }

  /** Called when the server has granted the lock. */
  granted(): void {
    if (!this.#released) this.#set(true);
  }

  stolen(): void {
    this.#set(false);
    this.#tell('unlock');
    this.#ask();
  }

  #ask(): void {
    const session = this.#session;
    const method = this.#mode === 'steal' ? 'steal' : 'lock';
    const read = (result: unknown): void => {
      if (!isObject(result) || typeof result['locked'] !== 'boolean')
        throw new SeineError('PROTOCOL', 'OVSDB: reply to lock without locked');
      this.#mode = 'queue';
      if (result['locked']) this.granted();
    };
    session?.call({ method, params: [this.name] }, read, neverAborted).catch(() => {
      // It fails with its session, and the next session requests it again.
    });
  }

  #tell(method: 'unlock'): void {
    this.#session
      ?.call({ method, params: [this.name] }, () => {}, neverAborted)
      .catch(() => {
        // The end of the session releases the lock as well.
      });
  }

  #set(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    this.#waiters.poke();
  }
}

const neverAborted = new AbortController().signal;
