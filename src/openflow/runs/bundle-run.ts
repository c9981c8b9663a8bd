import { setImmediate as nextTurn } from 'node:timers/promises';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type BundleControlType, bundleFlag, decodeBundleControl, isBundleControl, writeBundleAdd, writeBundleControl } from '../bundle.ts';
import type { OpenFlowSession } from '../connection/session.ts';
import { decodeError, type ErrorMessage, refusal } from '../error-message.ts';
import { messageType, readHeader } from '../protocol.ts';
import { RangeRun } from './range-run.ts';

/** Messages with a known count, encoded on demand: each is valid until the next one is taken. */
export interface BundleMessages extends Iterable<Uint8Array> {
  readonly length: number;
}

interface Bundle<M = BundleMessages> {
  readonly bundle: number;
  readonly messages: M;
}

interface RefusedMessage {
  readonly index: number;
  readonly error: ErrorMessage;
}

const flags = bundleFlag.atomic + bundleFlag.ordered;
/** Number of bytes passed to the socket at once. */
export const chunkBytes = 256 * 1024;
const maxBundleBytes = 64 * 1024 * 1024;
/** Size of most messages in a bundle. */
const usualBytes = 512;
/** Bytes that a bundle adds to each of its messages; the maximum, which is that of OpenFlow 1.3. */
const wrappingBytes = 24;

/**
 * Runs one bundle: opens it and adds the messages in one go, checks with a barrier whether all were accepted, then commits. The switch
 * reads the first messages of a long bundle while the next are encoded.
 *
 * Transaction ids: the first opens, the next ones are the messages', then the barrier's and that of the commit or discard.
 *
 * @throws SeineError see `OpenFlowConnection.bundle`
 */
export async function runBundle(session: OpenFlowSession, { bundle, messages }: Bundle, signal: AbortSignal): Promise<void> {
  const run = new BundleRun(session, bundle, messages.length);
  try {
    await run.add(messages, signal);
    await run.commit(signal);
  } finally {
    run.end();
  }
}

/**
 * Like `runBundle`, with the commit directly after the messages: one round trip. The whole must fit into the window.
 *
 * @returns false, with nothing sent, if it does not
 * @throws SeineError see `OpenFlowConnection.bundleAtOnce`
 */
export async function runBundleAtOnce(
  session: OpenFlowSession,
  { bundle, messages }: Bundle<readonly Uint8Array[]>,
  signal: AbortSignal,
): Promise<boolean> {
  if (signal.aborted || !session.hasRoom(bundledBytes(messages) + 64)) return false;
  const run = new BundleRun(session, bundle, messages.length);
  try {
    await run.addAndCommit(messages, signal);
    return true;
  } finally {
    run.end();
  }
}

class BundleRun {
  readonly #session: OpenFlowSession;
  readonly #bundle: number;
  readonly #count: number;
  readonly #run: RangeRun;
  #refused: RefusedMessage | undefined;
  #controlError: ErrorMessage | undefined;
  #stage: 'adding' | 'added' | 'committing' | 'finished' = 'adding';

  constructor(session: OpenFlowSession, bundle: number, count: number) {
    this.#session = session;
    this.#bundle = bundle;
    this.#count = count;
    this.#run = new RangeRun(session, 'bundle', count + 3, (message) => this.#answered(message));
  }

  /**
   * @throws SeineError also errors thrown by `messages`; `INVARIANT` if a bundle cannot hold this number or size of messages. Nothing is
   *   changed then
   */
  async add(messages: BundleMessages, signal: AbortSignal): Promise<void> {
    let w = new ByteWriter(Math.min(chunkBytes, messages.length * usualBytes + 64));
    let [index, bytes] = [0, 0];
    this.#writeControl(w, 'openRequest', this.#run.firstXid);
    for (const message of messages) {
      if (index === this.#count) throw new SeineError('INVARIANT', `a bundle of ${this.#count} messages has more`);
      this.#writeAdd(w, index++, message);
      if (w.length < chunkBytes - 0xffff) continue;
      bytes += w.length;
      if (bytes > maxBundleBytes)
        throw new SeineError('INVARIANT', `a bundle of ${this.#count} messages is larger than ${maxBundleBytes} bytes`);
      await this.#send(w, signal);
      // The socket accepts what it had no room for only in the next turn.
      await nextTurn();
      w = new ByteWriter(chunkBytes);
    }
    if (index < this.#count) throw new SeineError('INVARIANT', `a bundle of ${this.#count} messages has ${index}`);
    // A small bundle is written before anything else can be: messages that its caller sends later must follow it.
    if (!this.#sendNow(w)) await this.#send(w, signal);
    this.#session.writeBarrier(this.#barrierXid);
    await this.#run.until(() => this.#stage === 'added', signal);
    this.#throwRefusal();
  }

  async addAndCommit(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const w = new ByteWriter(bundledBytes(messages) + 64);
    this.#writeControl(w, 'openRequest', this.#run.firstXid);
    for (const [index, message] of messages.entries()) this.#writeAdd(w, index, message);
    this.#writeControl(w, 'commitRequest', this.#lastXid);
    this.#stage = 'committing';
    this.#run.sent = true;
    this.#session.write(w.finish());
    await this.#run.until(() => this.#stage === 'finished', signal);
    if (this.#refused !== undefined && this.#controlError === undefined) throw madeInPart(this.#refused);
    this.#throwRefusal();
  }

  async commit(signal: AbortSignal): Promise<void> {
    this.#stage = 'committing';
    this.#run.sent = true;
    this.#session.write(this.#control('commitRequest'));
    await this.#run.until(() => this.#stage === 'finished', signal);
    this.#throwRefusal();
  }

  /** Discards a bundle that will not be committed at the switch too; the answer is ignored. */
  end(): void {
    this.#run.end();
    if (this.#run.isLost || this.#stage === 'committing' || this.#stage === 'finished') return;
    this.#session.write(this.#control('discardRequest'));
  }

  async #send(w: ByteWriter, signal: AbortSignal): Promise<void> {
    const bytes = w.written();
    await this.#run.room(bytes.length, signal);
    this.#session.write(bytes);
  }

  #sendNow(w: ByteWriter): boolean {
    const bytes = w.written();
    if (!this.#session.hasRoom(bytes.length)) return false;
    this.#session.write(bytes);
    return true;
  }

  get #barrierXid(): number {
    return this.#run.firstXid + this.#count + 1;
  }

  get #lastXid(): number {
    return this.#run.firstXid + this.#count + 2;
  }

  #answered(message: Uint8Array): 'more' | 'done' {
    const { type, xid } = readHeader(message);
    if (type === messageType.error) this.#failed(xid, decodeError(message));
    else if (type === messageType.barrierReply) this.#stage = 'added';
    else if (isBundleControl(message) && decodeBundleControl(message).type === 'commitReply') this.#stage = 'finished';
    return this.#stage === 'finished' ? 'done' : 'more';
  }

  /** An error about a message identifies the refused message; an error about the commit follows it, and ends the bundle. */
  #failed(xid: number, error: ErrorMessage): void {
    const index = xid - this.#run.firstXid - 1;
    if (index >= 0 && index < this.#count) this.#refused ??= { index, error };
    else this.#controlError ??= error;
    if (xid === this.#lastXid) this.#stage = 'finished';
    if (xid === this.#barrierXid) this.#stage = 'added';
  }

  #throwRefusal(): void {
    if (this.#refused !== undefined) throw refusal(this.#refused.error, 'bundle', { index: this.#refused.index });
    if (this.#controlError !== undefined) throw refusal(this.#controlError, 'bundle');
  }

  #writeAdd(w: ByteWriter, index: number, message: Uint8Array): void {
    writeBundleAdd(w, { bundle: this.#bundle, flags, xid: this.#run.firstXid + 1 + index, message }, this.#session.version);
  }

  #writeControl(w: ByteWriter, type: BundleControlType, xid: number): void {
    const start = w.length;
    writeBundleControl(w, { bundle: this.#bundle, type, flags }, this.#session.version);
    w.patchU32(start + 4, xid);
  }

  #control(type: BundleControlType): Uint8Array {
    const w = new ByteWriter();
    this.#writeControl(w, type, this.#lastXid);
    return w.finish();
  }
}

/** The switch has refused one message and applied the others. */
function madeInPart({ index, error }: RefusedMessage): SeineError {
  const cause = refusal(error, 'bundle', { index });
  return new SeineError('UNAVAILABLE', 'a bundle was applied in part', { context: { sent: true, inPart: true, index }, cause });
}

/** Size of the messages with their bundle headers. */
function bundledBytes(messages: readonly Uint8Array[]): number {
  return messages.reduce((sum, message) => sum + message.length + wrappingBytes, 0);
}
