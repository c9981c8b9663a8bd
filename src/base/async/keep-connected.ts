import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { SeineError } from '../errors/seine-error.ts';
import { type ReconnectEvent, type ReconnectPolicy, type ReconnectState, stepReconnect, stoppedState, wakeAtMs } from './reconnect.ts';

/** User of one stream, from its opening to its end. A new one is made for each stream. */
export interface Conversation {
  /**
   * Receives bytes; the callee owns the chunk.
   *
   * @throws SeineError `PROTOCOL` if the peer violates the protocol. The stream is then closed.
   */
  received(chunk: Uint8Array): void;
  /** Sends a message that the peer must answer, because the peer has been silent. */
  probe(): void;
  /** Notes that the stream is closed and nothing can be sent any more. Called once, and last. */
  closed(cause: SeineError): void;
}

export interface KeepConnectedOptions {
  /** Name of the peer, for messages. */
  readonly peer: string;
  /** Begins a connection attempt. */
  readonly dial: () => Socket;
  readonly policy: ReconnectPolicy;
  /** Begins to use an open stream. To close the stream, destroy the socket with the reason as its error. */
  readonly open: (socket: Socket) => Conversation;
  /**
   * Pause after each read (ms), for a peer that sends many small messages in no hurry: reading them together costs a fraction of a wake-up
   * for each. A read of `BUSY_BYTES` is followed by the next one at once. The socket must not read ahead (`noReadAhead`).
   */
  readonly readEveryMs?: number;
  /** Called after an attempt or a stream failed; the next attempt follows in `waitMs`. */
  readonly failed?: (cause: SeineError, waitMs: number) => void;
}

const BUSY_BYTES = 16 * 1024;

/** Keeps one stream to a peer open until the signal aborts. Resolves when everything is closed; never rejects. */
export function keepConnected(options: KeepConnectedOptions, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const keeper = new Keeper(options);
    const stop = () => {
      keeper.step('stop', new SeineError('CANCELLED', `${options.peer}: connection no longer needed`));
      resolve();
    };
    if (signal.aborted) return resolve();
    signal.addEventListener('abort', stop, { once: true });
    keeper.step('start');
  });
}

/** Owns the socket and the timer, and carries out the effects of the reconnect state machine. */
class Keeper {
  readonly #options: KeepConnectedOptions;
  #state: ReconnectState = stoppedState;
  #socket: Socket | undefined;
  #conversation: Conversation | undefined;
  #timer: NodeJS.Timeout | undefined;
  #timerAtMs = Number.POSITIVE_INFINITY;

  constructor(options: KeepConnectedOptions) {
    this.#options = options;
  }

  step(event: ReconnectEvent, cause?: SeineError): void {
    const nowMs = performance.now();
    const { state, effect } = stepReconnect(this.#state, event, { nowMs, chance: Math.random() }, this.#options.policy);
    const before = this.#state;
    this.#state = state;
    this.#arm(nowMs);
    if (effect === 'disconnect') this.#drop(cause ?? this.#silence(before));
    if (effect === 'connect') this.#dial();
    if (effect === 'probe') this.#conversation?.probe();
  }

  #dial(): void {
    let socket: Socket;
    try {
      socket = this.#options.dial();
    } catch (thrown) {
      // A dial that throws at once must not retry from within its own step.
      setImmediate(() => this.#lost(undefined, SeineError.from(thrown, `${this.#options.peer}: dial`)));
      return;
    }
    this.#socket = socket;
    let failure: unknown;
    socket.once('error', (error) => (failure = error));
    // Further errors of a failed socket add nothing, but without a listener they would end the process.
    socket.on('error', () => {});
    // For an encrypted stream, `connect` is emitted before its handshake.
    socket.once(socket instanceof TLSSocket ? 'secureConnect' : 'connect', () => this.#connected(socket));
    socket.once('close', () => this.#lost(socket, this.#classify(failure)));
    socket.once('end', () => socket.destroy());
  }

  #connected(socket: Socket): void {
    if (socket !== this.#socket) return;
    this.step('connected');
    this.#conversation = this.#options.open(socket);
    socket.on('data', (chunk) => this.#data(socket, chunk));
  }

  #data(socket: Socket, chunk: Uint8Array): void {
    const conversation = this.#conversation;
    if (socket !== this.#socket || conversation === undefined) return;
    this.step('heard');
    try {
      conversation.received(chunk);
    } catch (thrown) {
      socket.destroy(SeineError.from(thrown, `${this.#options.peer}: bad input`));
    }
    const { readEveryMs = 0 } = this.#options;
    if (readEveryMs === 0 || chunk.length >= BUSY_BYTES) return;
    socket.pause();
    setTimeout(() => socket.resume(), readEveryMs).unref();
  }

  #lost(socket: Socket | undefined, cause: SeineError): void {
    if (socket !== this.#socket) return;
    this.step('lost');
    this.#drop(cause);
  }

  /** Closes the stream, and passes the reason to the conversation and the owner. */
  #drop(cause: SeineError): void {
    const socket = this.#socket;
    const conversation = this.#conversation;
    this.#socket = undefined;
    this.#conversation = undefined;
    socket?.destroy();
    conversation?.closed(cause);
    if (this.#state.kind === 'waiting') this.#options.failed?.(cause, Math.max(0, this.#state.untilMs - performance.now()));
  }

  /** A timer that is already set for an earlier time stays: it fires, finds nothing due, and is set again. */
  #arm(nowMs: number): void {
    const due = wakeAtMs(this.#state, this.#options.policy);
    if (due === undefined || due < this.#timerAtMs) {
      clearTimeout(this.#timer);
      this.#timerAtMs = Number.POSITIVE_INFINITY;
    }
    if (due === undefined || due >= this.#timerAtMs) return;
    this.#timerAtMs = due;
    this.#timer = setTimeout(() => this.#fired(), Math.max(0, Math.ceil(due - nowMs)));
  }

  /**
   * Runs a step after one poll phase. After a pause of the whole process (SIGSTOP, a long garbage collection) timers run before sockets are
   * read. Reading the clock only after a poll phase lets a reply that is already waiting count, so that a live peer is not dropped.
   */
  #fired(): void {
    this.#timerAtMs = Number.POSITIVE_INFINITY;
    setImmediate(() => this.step('tick'));
  }

  #silence(before: ReconnectState): SeineError {
    const what = before.kind === 'connecting' ? 'no connection in time' : 'no answer to a probe in time';
    return new SeineError('UNAVAILABLE', `${this.#options.peer}: ${what}`);
  }

  #classify(failure: unknown): SeineError {
    if (failure === undefined) return new SeineError('UNAVAILABLE', `${this.#options.peer}: connection closed by the peer`);
    if (failure instanceof SeineError) return failure;
    const message = failure instanceof Error ? failure.message : String(failure);
    return new SeineError('UNAVAILABLE', `${this.#options.peer}: ${message}`, { cause: failure });
  }
}
