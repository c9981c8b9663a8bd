import type { Conversation } from '../base/async/keep-connected.ts';
import { SeineError } from '../base/errors/seine-error.ts';
import { defaultFrameLimits, type FrameLimits, JsonFramer } from './framer.ts';
import { type Json, parseJson } from './json.ts';
import { type Incoming, readMessage, readServerError, writeError, writeNotification, writeReply, writeRequest } from './json-rpc.ts';

/** Part of a socket that a session needs. */
export interface Outlet {
  write(text: string): unknown;
  /** Number of bytes that were written and not yet passed to the kernel. */
  readonly writableLength: number;
}

export interface JsonRpcSessionEvents {
  /** Called for a notification of the peer: `update3`, `locked`, … */
  notified(method: string, params: readonly unknown[]): void;
  closed(cause: SeineError): void;
}

export interface CallRequest {
  readonly method: string;
  readonly params: Json;
  /** Set if the server is requested to stop, too, when the caller stops waiting (RFC 7047 section 4.1.4). It may act all the same. */
  readonly cancellable?: boolean;
}

interface Call {
  readonly method: string;
  settle(answer: { readonly result: unknown } | SeineError): void;
}

/** Maximum number of unanswered calls; more mean a peer that no longer reads. */
const maxCalls = 4_096;

export interface SessionLimits extends FrameLimits {
  /** Maximum number of unsent bytes; more mean a peer that no longer reads. */
  readonly maxUnsentBytes: number;
}

export const defaultSessionLimits: SessionLimits = { ...defaultFrameLimits, maxUnsentBytes: 256 * 1024 * 1024 };

/**
 * JSON-RPC over one stream: finds the call that a reply belongs to, answers echoes, passes notifications on.
 *
 * All calls end with the stream: `closed` fails the calls that wait for a reply with `UNAVAILABLE`, because it is unknown whether the
 * server acted on them.
 */
export class JsonRpcSession implements Conversation {
  readonly #outlet: Outlet;
  readonly #events: JsonRpcSessionEvents;
  readonly #framer: JsonFramer;
  readonly #limits: SessionLimits;
  readonly #calls = new Map<number, Call>();
  #nextId = 1;
  #end: SeineError | undefined;

  constructor(outlet: Outlet, events: JsonRpcSessionEvents, limits: SessionLimits = defaultSessionLimits) {
    this.#outlet = outlet;
    this.#events = events;
    this.#limits = limits;
    this.#framer = new JsonFramer(limits);
  }

  /**
   * Sends a request and waits for its result.
   *
   * @param read converts the raw result. It runs before anything that the server sent after the reply is processed, so that the state it
   *   stores is in place for the next notification
   * @throws SeineError `REFUSED` with `context.error` and `context.details` in the server's words; `UNAVAILABLE` if the stream closed, with
   *   `context.sent` set if the server may have acted; `CANCELLED` if the signal was aborted first, also with `context.sent`; and any error
   *   of `read`.
   */
  call<T>(request: CallRequest, read: (result: unknown) => T, signal: AbortSignal): Promise<T> {
    const { method, params, cancellable = false } = request;
    const refusal = this.#sendBlockedBy(method, signal);
    if (refusal !== undefined) return Promise.reject(refusal);
    const id = this.#nextId;
    this.#nextId += 1;
    const text = writeRequest(id, method, params);
    return new Promise((resolve, reject) => {
      const forget = () => {
        this.#calls.delete(id);
        if (cancellable) this.#outlet.write(writeNotification('cancel', [id]));
        reject(new SeineError('CANCELLED', `ovsdb ${method}: no longer waited for`, { context: { sent: true }, cause: signal.reason }));
      };
      signal.addEventListener('abort', forget, { once: true });
      this.#calls.set(id, {
        method,
        settle(answer) {
          signal.removeEventListener('abort', forget);
          if (answer instanceof SeineError) return reject(answer);
          try {
            resolve(read(answer.result));
          } catch (thrown) {
            reject(thrown);
          }
        },
      });
      this.#outlet.write(text);
    });
  }

  received(chunk: Uint8Array): void {
    for (const frame of this.#framer.push(chunk)) this.#dispatch(readMessage(parseJson(frame)));
  }

  /** Sends an echo request. Any bytes that arrive are a sign of life, so the reply itself is ignored. */
  probe(): void {
    this.call({ method: 'echo', params: [] }, ignore, neverAborted).catch(() => {
      // A probe fails only with the stream, whose end is reported to the owner anyway.
    });
  }

  closed(cause: SeineError): void {
    if (this.#end !== undefined) return;
    this.#end = cause;
    for (const { method, settle } of this.#calls.values()) {
      settle(new SeineError('UNAVAILABLE', `ovsdb ${method}: connection lost before the reply`, { context: { sent: true }, cause }));
    }
    this.#calls.clear();
    this.#events.closed(cause);
  }

  #sendBlockedBy(method: string, signal: AbortSignal): SeineError | undefined {
    const context = { sent: false };
    if (signal.aborted) return new SeineError('CANCELLED', `ovsdb ${method}: not sent`, { context, cause: signal.reason });
    if (this.#end !== undefined) return new SeineError('UNAVAILABLE', `ovsdb ${method}: not connected`, { context, cause: this.#end });
    if (this.#calls.size >= maxCalls || this.#outlet.writableLength > this.#limits.maxUnsentBytes) {
      return new SeineError('UNAVAILABLE', `ovsdb ${method}: the server is too slow`, {
        context: { ...context, calls: this.#calls.size },
      });
    }
    return undefined;
  }

  #dispatch(message: Incoming): void {
    switch (message.kind) {
      case 'request':
        this.#answer(message);
        return;
      case 'notification':
        this.#events.notified(message.method, message.params);
        return;
      case 'result':
        this.#callOf(message.id)?.settle({ result: message.result });
        return;
      case 'error': {
        const call = this.#callOf(message.id);
        const context = readServerError(message.error);
        call?.settle(new SeineError('REFUSED', `ovsdb ${call.method}: ${describe(context)}`, { context: { ...context } }));
      }
    }
  }

  #answer({ id, method, params }: Extract<Incoming, { kind: 'request' }>): void {
    if (this.#outlet.writableLength > this.#limits.maxUnsentBytes) {
      throw new SeineError('UNAVAILABLE', 'JSON-RPC: the peer sends requests and does not read the answers');
    }
    this.#outlet.write(method === 'echo' ? writeReply(id, params) : writeError(id, 'unknown method'));
  }

  /** Returns the call that waits for this reply; `undefined` if the caller stopped waiting. */
  #callOf(id: unknown): Call | undefined {
    if (typeof id !== 'number' || !(id < this.#nextId)) throw new SeineError('PROTOCOL', 'JSON-RPC: reply to an unknown request');
    const call = this.#calls.get(id);
    this.#calls.delete(id);
    return call;
  }
}

const neverAborted = new AbortController().signal;
const ignore = (): void => {};

function describe({ error, details }: { readonly error: string; readonly details: string }): string {
  return details === '' ? error : `${error}: ${details}`;
}
