import { Waiters } from '../base/async/waiters.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { isObject } from './json-rpc.ts';
import type { JsonRpcSession } from './session.ts';

/** Wait in the queue, or steal it from its holder. A client that stole it waits in the queue after a reconnect. */
export type LockMode = 'queue' | 'steal';

/**
 * A lock of the server's, requested in every session until it is released.
 *
 * A lock ends with its holder's session, so it may be lost at any time: what must not happen without it belongs
 * into a transaction with `assertLock`. A client whose lock is stolen goes back to the queue.
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

  /** @throws SeineError `CANCELLED` if the signal comes first. */
  async whenHeld(signal: AbortSignal): Promise<void> {
    await this.#waiters.wait(() => (this.#held ? true : undefined), signal);
  }

  /** @throws SeineError `CANCELLED` if the signal comes first. */
  async whenLost(signal: AbortSignal): Promise<void> {
    await this.#waiters.wait(() => (this.#held ? undefined : true), signal);
  }

  /** Releases it, and requests it no more. */
  release(): void {
    if (this.#released) return;
    this.#released = true;
    this.#set(false);
    this.#tell('unlock');
    this.#onRelease();
  }

  /** A session is there to ask over. */
  connected(session: JsonRpcSession): void {
    if (this.#session === session) return;
    this.#session = session;
    this.#ask();
  }

  disconnected(): void {
    this.#session = undefined;
    this.#set(false);
  }

  /** The server gave it to us. */
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
      // It fails with its session, and the next one asks again.
    });
  }

  #tell(method: 'unlock'): void {
    this.#session
      ?.call({ method, params: [this.name] }, () => {}, neverAborted)
      .catch(() => {
        // The end of the session unlocks just as well.
      });
  }

  #set(held: boolean): void {
    if (this.#held === held) return;
    this.#held = held;
    this.#waiters.poke();
  }
}

const neverAborted = new AbortController().signal;
