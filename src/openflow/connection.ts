import { dialEndpoint, type Endpoint, parseEndpoint } from '../async/endpoint.ts';
import { keepConnected } from '../async/keep-connected.ts';
import { localPolicy, type ReconnectPolicy } from '../async/reconnect.ts';
import { SeineError } from '../errors/seine-error.ts';
import { ByteWriter } from '../wire/bytes.ts';
import { runBundle } from './bundle-run.ts';
import { decodeError, refusal } from './error-message.ts';
import {
  decodeAggregate,
  type FlowAggregate,
  type FlowEntry,
  type FlowFilter,
  visitFlowEntries,
  writeAggregateRequest,
  writeFlowDescRequest,
} from './flow-stats.ts';
import { decodeGroupDescriptions, type Group, writeGroupDescRequest } from './group.ts';
import { decodeMultipart } from './multipart.ts';
import { beginMessage, endMessage, messageType, readHeader } from './protocol.ts';
import { type Expectation, OpenFlowSession, withXid } from './session.ts';

export interface OpenFlowConnectionOptions {
  /** `unix:PATH` (`<rundir>/<bridge>.mgmt`) or `tcp:HOST:PORT`. */
  readonly endpoint: string;
  readonly policy?: ReconnectPolicy;
  /** Sent on every new stream after the versions are agreed: packet-in format, controller id, a flow monitor, … */
  readonly greeting?: readonly Uint8Array[];
  /** The stream is up. Everything the switch held may have changed since the last time. */
  readonly up?: () => void;
  readonly down?: (cause: SeineError) => void;
  /** An attempt to connect failed; the next follows in `waitMs`. */
  readonly failed?: (cause: SeineError, waitMs: number) => void;
  /** A message that nobody asked for: packet-in, port status, flow removed, flow monitor, an error about a `send`. */
  readonly unsolicited?: (message: Uint8Array) => void;
}

/** Sums since the connection was made, for metrics. */
export interface OpenFlowCounters {
  readonly flowMods: number;
  readonly groupMods: number;
  readonly bundles: number;
  readonly bundlesRefused: number;
  readonly connects: number;
}

/**
 * An OpenFlow 1.5 connection to one bridge, kept up until the signal of `run`.
 *
 * Every method that asks the switch something fails with `UNAVAILABLE` while the stream is down or when it is lost before
 * the answer came. Then `context.sent` is `false` if the switch certainly did nothing, and otherwise the outcome is unknown.
 * `REFUSED` means that the switch said no, with its error's name in `context.error`.
 */
export class OpenFlowConnection {
  readonly #options: OpenFlowConnectionOptions;
  readonly #endpoint: Endpoint;
  readonly #counters = { flowMods: 0, groupMods: 0, bundles: 0, bundlesRefused: 0, connects: 0 };
  readonly #waiters = new Set<() => void>();
  #session: OpenFlowSession | undefined;
  #nextBundle = 1;

  /** @throws SeineError `INVALID_INPUT` if the endpoint is none */
  constructor(options: OpenFlowConnectionOptions) {
    this.#options = options;
    this.#endpoint = parseEndpoint(options.endpoint);
  }

  get counters(): OpenFlowCounters {
    return { ...this.#counters };
  }

  get isUp(): boolean {
    return this.#session !== undefined;
  }

  /** Connects, and again whenever the stream is lost. Resolves when the signal comes; never rejects. */
  run(signal: AbortSignal): Promise<void> {
    const { failed } = this.#options;
    return keepConnected(
      {
        peer: this.#options.endpoint,
        dial: () => dialEndpoint(this.#endpoint),
        policy: this.#options.policy ?? localPolicy,
        open: (socket) => {
          const session: OpenFlowSession = new OpenFlowSession(socket, {
            up: () => this.#up(session),
            down: (cause) => this.#down(cause),
            unsolicited: (message) => this.#options.unsolicited?.(message),
          });
          return session;
        },
        ...(failed === undefined ? {} : { failed }),
      },
      signal,
    );
  }

  /** Waits until the stream is up. @throws SeineError `CANCELLED` */
  async untilUp(signal: AbortSignal): Promise<void> {
    while (this.#session === undefined) {
      if (signal.aborted) throw new SeineError('CANCELLED', `${this.#options.endpoint}: waiting for the connection`);
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#waiters.delete(wake);
          signal.removeEventListener('abort', wake);
          resolve();
        };
        this.#waiters.add(wake);
        signal.addEventListener('abort', wake, { once: true });
      });
    }
  }

  /**
   * Sends messages that have no answer, such as packet-outs. Waits only if the switch takes them too slowly. An error about
   * one of them comes as an unsolicited message.
   */
  async send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const session = this.#require();
    for (const message of messages) {
      this.#count(message);
      session.write(withXid(message, session.reserveXids(1)));
      if (!session.isCongested) continue;
      await session.drained(signal);
      if (signal.aborted) throw new SeineError('CANCELLED', 'OpenFlow send');
      if (this.#session !== session) throw new SeineError('UNAVAILABLE', 'OpenFlow send: connection lost');
    }
  }

  /** Sends one message and waits for its answer. */
  request(message: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return new Promise((resolve, reject) =>
      this.#ask(message, signal, reject, (answer) => {
        resolve(answer);
        return 'done';
      }),
    );
  }

  /**
   * Waits until the switch has dealt with everything sent before.
   *
   * Source: OpenFlow 1.5.1 section 7.3.7 "Barrier message".
   */
  async barrier(signal: AbortSignal): Promise<void> {
    await this.request(emptyMessage(messageType.barrierRequest), signal);
  }

  /**
   * Sends one multipart request and calls `visit` with the body of each part of the answer, as they come. The bodies are not
   * kept; what `visit` throws fails the request.
   */
  multipart(message: Uint8Array, visit: (body: Uint8Array) => void, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) =>
      this.#ask(message, signal, reject, (answer) => {
        if (readHeader(answer).type !== messageType.multipartReply)
          throw new SeineError('PROTOCOL', 'multipart request got another answer');
        const part = decodeMultipart(answer);
        visit(part.body);
        if (!part.last) return 'more';
        resolve();
        return 'done';
      }),
    );
  }

  /** Calls `visit` with each flow, in the order of the switch. See `FlowEntry` about keeping its bytes. */
  async dumpFlows(filter: FlowFilter, visit: (entry: FlowEntry) => void, signal: AbortSignal): Promise<void> {
    const w = new ByteWriter();
    writeFlowDescRequest(w, filter);
    await this.multipart(w.finish(), (body) => visitFlowEntries(body, visit), signal);
  }

  async aggregate(filter: FlowFilter, signal: AbortSignal): Promise<FlowAggregate> {
    const w = new ByteWriter();
    writeAggregateRequest(w, filter);
    let sum: FlowAggregate = { flows: 0, packets: 0n, bytes: 0n };
    await this.multipart(w.finish(), (body) => (sum = decodeAggregate(body)), signal);
    return sum;
  }

  /**
   * Sends the multipart request that `write` writes, and collects what `decode` finds in the parts of the answer:
   * `gather(writePortDescRequest, decodePorts, signal)`. For what is small; large answers are for `multipart`.
   */
  async gather<T>(write: (w: ByteWriter) => void, decode: (body: Uint8Array) => readonly T[], signal: AbortSignal): Promise<T[]> {
    const w = new ByteWriter();
    write(w);
    const found: T[] = [];
    await this.multipart(
      w.finish(),
      (body) => {
        for (const each of decode(body)) found.push(each);
      },
      signal,
    );
    return found;
  }

  /** Every group, with its buckets. */
  dumpGroups(signal: AbortSignal): Promise<Group[]> {
    return this.gather(writeGroupDescRequest, decodeGroupDescriptions, signal);
  }

  /**
   * Makes all changes, in order and as one, or none of them.
   *
   * Two round trips and not one: Open vSwitch 3.1 refuses a malformed or impossible message when it is added, and commits a
   * bundle without the messages it refused. So the commit is sent only when a barrier has shown that all were taken.
   *
   * @param messages flow-mods, group-mods, packet-outs; their transaction ids do not matter
   * @throws SeineError `REFUSED` with `context.index`, the place of the message that the switch refused, and
   *   `context.error`. Nothing was changed. `UNAVAILABLE`: `context.sent` is `false` if nothing was changed, otherwise all or
   *   nothing was.
   */
  async bundle(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    if (messages.length === 0) return;
    const session = this.#require();
    for (const message of messages) this.#count(message);
    this.#counters.bundles++;
    const bundle = this.#nextBundle;
    this.#nextBundle = (this.#nextBundle % 0xffff_ffff) + 1;
    try {
      await runBundle(session, { bundle, messages }, signal);
    } catch (thrown) {
      if (thrown instanceof SeineError && thrown.code === 'REFUSED') this.#counters.bundlesRefused++;
      throw thrown;
    }
  }

  #up(session: OpenFlowSession): void {
    this.#session = session;
    this.#counters.connects++;
    for (const message of this.#options.greeting ?? []) session.write(withXid(message, session.reserveXids(1)));
    for (const wake of [...this.#waiters]) wake();
    this.#options.up?.();
  }

  #down(cause: SeineError): void {
    this.#session = undefined;
    this.#options.down?.(cause);
  }

  #require(): OpenFlowSession {
    if (this.#session === undefined)
      throw new SeineError('UNAVAILABLE', `${this.#options.endpoint}: not connected`, { context: { sent: false } });
    return this.#session;
  }

  #count(message: Uint8Array): void {
    if (message[1] === messageType.flowMod) this.#counters.flowMods++;
    else if (message[1] === messageType.groupMod) this.#counters.groupMods++;
  }

  #ask(message: Uint8Array, signal: AbortSignal, reject: (cause: SeineError) => void, answered: Expectation['answered']): void {
    if (signal.aborted) throw new SeineError('CANCELLED', 'OpenFlow request', { context: { sent: false } });
    const session = this.#require();
    this.#count(message);
    const xid = session.reserveXids(1);
    const cancel = () => {
      session.forget(expectation);
      reject(new SeineError('CANCELLED', 'OpenFlow request'));
    };
    const settle = (cause: SeineError) => {
      signal.removeEventListener('abort', cancel);
      reject(cause);
      return 'done' as const;
    };
    const expectation: Expectation = {
      firstXid: xid,
      count: 1,
      answered: (answer) => {
        if (readHeader(answer).type === messageType.error) return settle(refusal(decodeError(answer), 'OpenFlow request'));
        const state = answeredSafely(answered, answer, settle);
        if (state === 'done') signal.removeEventListener('abort', cancel);
        return state;
      },
      lost: (cause) => void settle(new SeineError('UNAVAILABLE', 'OpenFlow request: connection lost', { cause })),
    };
    session.expect(expectation);
    signal.addEventListener('abort', cancel, { once: true });
    session.write(withXid(message, xid));
  }
}

/** What the reader of an answer throws fails its request; a broken message also ends the stream. */
function answeredSafely(answered: Expectation['answered'], answer: Uint8Array, settle: (cause: SeineError) => 'done'): 'more' | 'done' {
  try {
    return answered(answer);
  } catch (thrown) {
    return settle(SeineError.from(thrown, 'reading an OpenFlow answer'));
  }
}

function emptyMessage(type: number): Uint8Array {
  const w = new ByteWriter();
  endMessage(w, beginMessage(w, type));
  return w.finish();
}
