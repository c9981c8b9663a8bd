import { SeineError } from '../errors/seine-error.ts';
import { ByteWriter } from '../wire/bytes.ts';
import { type BundleControlType, bundleFlag, decodeBundleControl, writeBundleAdd, writeBundleControl } from './bundle.ts';
import { decodeError, type ErrorMessage, refusal } from './error-message.ts';
import { beginMessage, endMessage, messageType, readHeader } from './protocol.ts';
import type { Expectation, OpenFlowSession } from './session.ts';

export interface Bundle {
  readonly bundle: number;
  readonly messages: readonly Uint8Array[];
}

const flags = bundleFlag.atomic + bundleFlag.ordered;
/** Bytes handed to the socket at once. */
const chunkBytes = 256 * 1024;
const maxBundleBytes = 64 * 1024 * 1024;

/**
 * Runs one bundle: opens it and adds the messages in one go, asks with a barrier whether all were taken, then commits.
 *
 * Transaction ids: `first` opens, the next ones are the messages', then the barrier's and that of the commit or discard.
 *
 * @throws SeineError see `OpenFlowConnection.bundle`
 */
export async function runBundle(session: OpenFlowSession, { bundle, messages }: Bundle, signal: AbortSignal): Promise<void> {
  if (bundledBytes(messages) > maxBundleBytes)
    throw new SeineError('INVARIANT', `a bundle of ${messages.length} messages is larger than ${maxBundleBytes} bytes`);
  const run = new BundleRun(session, bundle, messages.length);
  try {
    await run.add(messages, signal);
    await run.commit(signal);
  } finally {
    run.end();
  }
}

class BundleRun {
  readonly #session: OpenFlowSession;
  readonly #bundle: number;
  readonly #count: number;
  readonly #first: number;
  readonly #expectation: Expectation;
  #refused: { readonly index: number; readonly error: ErrorMessage } | undefined;
  #controlError: ErrorMessage | undefined;
  #stage: 'adding' | 'added' | 'committing' | 'finished' = 'adding';
  #lost: SeineError | undefined;
  #wake: (() => void) | undefined;

  constructor(session: OpenFlowSession, bundle: number, count: number) {
    this.#session = session;
    this.#bundle = bundle;
    this.#count = count;
    this.#first = session.reserveXids(count + 3);
    this.#expectation = {
      firstXid: this.#first,
      count: count + 3,
      answered: (message) => this.#answered(message),
      lost: (cause) => {
        this.#lost = cause;
        this.#wake?.();
      },
    };
    session.expect(this.#expectation);
  }

  async add(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    let w = new ByteWriter(Math.min(chunkBytes, bundledBytes(messages) + 64));
    writeControl(w, this.#bundle, 'openRequest', this.#first);
    for (const [index, message] of messages.entries()) {
      writeBundleAdd(w, { bundle: this.#bundle, flags, xid: this.#first + 1 + index, message });
      if (w.length < chunkBytes - 0xffff) continue;
      this.#session.write(w.written());
      w = new ByteWriter(chunkBytes);
      await this.#session.drained(signal);
      this.#check(signal);
    }
    writeBarrier(w, this.#barrierXid);
    this.#session.write(w.written());
    await this.#until('added', signal);
    if (this.#refused !== undefined || this.#controlError !== undefined) throw this.#refusal();
  }

  async commit(signal: AbortSignal): Promise<void> {
    this.#stage = 'committing';
    this.#session.write(control(this.#bundle, 'commitRequest', this.#lastXid));
    await this.#until('finished', signal);
    if (this.#refused !== undefined || this.#controlError !== undefined) throw this.#refusal();
  }

  /** A bundle that will not be committed is thrown away at the switch too; its answer does not matter. */
  end(): void {
    this.#session.forget(this.#expectation);
    if (this.#lost !== undefined || this.#stage === 'committing' || this.#stage === 'finished') return;
    this.#session.write(control(this.#bundle, 'discardRequest', this.#lastXid));
  }

  get #barrierXid(): number {
    return this.#first + this.#count + 1;
  }

  get #lastXid(): number {
    return this.#first + this.#count + 2;
  }

  async #until(stage: 'added' | 'finished', signal: AbortSignal): Promise<void> {
    const wake = () => this.#wake?.();
    signal.addEventListener('abort', wake, { once: true });
    try {
      while (this.#stage !== stage) {
        this.#check(signal);
        await new Promise<void>((resolve) => (this.#wake = resolve));
      }
    } finally {
      signal.removeEventListener('abort', wake);
    }
  }

  #check(signal: AbortSignal): void {
    const sent = this.#stage === 'committing';
    if (this.#lost !== undefined) throw new SeineError('UNAVAILABLE', 'bundle: connection lost', { context: { sent }, cause: this.#lost });
    if (signal.aborted) throw new SeineError('CANCELLED', 'bundle', { context: { sent } });
  }

  #answered(message: Uint8Array): 'more' | 'done' {
    const { type, xid } = readHeader(message);
    if (type === messageType.error) this.#failed(xid, decodeError(message));
    else if (type === messageType.barrierReply) this.#stage = 'added';
    else if (type === messageType.bundleControl && decodeBundleControl(message).type === 'commitReply') this.#stage = 'finished';
    this.#wake?.();
    return this.#stage === 'finished' ? 'done' : 'more';
  }

  /** An error about a message names the culprit; one about the commit follows it, and ends the bundle. */
  #failed(xid: number, error: ErrorMessage): void {
    const index = xid - this.#first - 1;
    if (index >= 0 && index < this.#count) this.#refused ??= { index, error };
    else this.#controlError ??= error;
    if (xid === this.#lastXid) this.#stage = 'finished';
    if (xid === this.#barrierXid) this.#stage = 'added';
  }

  #refusal(): SeineError {
    if (this.#refused !== undefined) return refusal(this.#refused.error, 'bundle', { index: this.#refused.index });
    return refusal(this.#controlError ?? { type: 0, code: 0, name: 'unknown', data: new Uint8Array(0) }, 'bundle');
  }
}

/** The messages with what puts each into a bundle. */
function bundledBytes(messages: readonly Uint8Array[]): number {
  return messages.reduce((sum, message) => sum + message.length + 16, 0);
}

function writeControl(w: ByteWriter, bundle: number, type: BundleControlType, xid: number): void {
  const start = w.length;
  writeBundleControl(w, { bundle, type, flags });
  w.patchU32(start + 4, xid);
}

function control(bundle: number, type: BundleControlType, xid: number): Uint8Array {
  const w = new ByteWriter();
  writeControl(w, bundle, type, xid);
  return w.finish();
}

function writeBarrier(w: ByteWriter, xid: number): void {
  const start = beginMessage(w, messageType.barrierRequest);
  endMessage(w, start);
  w.patchU32(start + 4, xid);
}
