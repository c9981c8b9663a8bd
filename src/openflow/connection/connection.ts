import { dialEndpoint, noReadAhead, parseEndpoint, type SocketEndpoint, type TlsCredentials } from '../../base/async/endpoint.ts';
import { keepConnected } from '../../base/async/keep-connected.ts';
import { localPolicy, type ReconnectPolicy } from '../../base/async/reconnect.ts';
import { Waiters } from '../../base/async/waiters.ts';
import { type ByteWriter, bytesOf } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeTableStats, writeTableStatsRequest } from '../control.ts';
import { flowParts, isOfTables } from '../flows/flow-parts.ts';
import {
  decodeAggregate,
  type FlowAggregate,
  type FlowFilter,
  type FlowStats,
  visitFlowEntries,
  writeAggregateRequest,
  writeFlowDescRequest,
} from '../flows/flow-stats.ts';
import { decodeGroupDescriptions, type Group, visitGroupMods, writeGroupDescRequest } from '../groups/group.ts';
import {
  ALL_METERS,
  decodeMeterStats,
  decodeMeters,
  type Meter,
  type MeterStats,
  writeMeterDescRequest,
  writeMeterStatsRequest,
} from '../meter.ts';
import { multipartType, writeMultipartRequest } from '../multipart.ts';
import { beginMessage, endMessage, HEADER_BYTES, messageType, OPENFLOW_13, OPENFLOW_15, type Version, versionNames } from '../protocol.ts';
import { runApply } from '../runs/apply-run.ts';
import { type BundleMessages, runBundle, runBundleAtOnce } from '../runs/bundle-run.ts';
import { runMultipart, runRequest } from '../runs/request-run.ts';
import { OpenFlowSession, type SessionOptions, withXid } from './session.ts';
import { TransactionIds } from './transaction-ids.ts';

const defaultWindowBytes = 4 * 1024 * 1024;
const maxGatheredBytes = 64 * 1024 * 1024;

export interface OpenFlowConnectionOptions {
  /** `unix:PATH` (`<rundir>/<bridge>.mgmt`), `tcp:HOST:PORT`, or `ssl:HOST:PORT`. */
  readonly endpoint: string;
  /** TLS credentials of an `ssl:` endpoint. */
  readonly credentials?: TlsCredentials;
  /** Versions to offer; the highest that the switch also supports is used. Default: 1.5 only. */
  readonly versions?: readonly Version[];
  readonly policy?: ReconnectPolicy;
  /** Maximum number of bytes sent to the switch that it has not acknowledged; default 4 MiB. */
  readonly windowBytes?: number;
  /** Sent on every new stream after version negotiation: packet-in format, controller id, a flow monitor, … */
  readonly greeting?: readonly Uint8Array[] | ((version: Version) => readonly Uint8Array[]);
  /** Called when the stream is up. All state of the switch may have changed since the last time. */
  readonly up?: () => void;
  readonly down?: (cause: SeineError) => void;
  /** Called when an attempt to connect failed; the next follows in `waitMs`. */
  readonly failed?: (cause: SeineError, waitMs: number) => void;
  /** Pause after each read (ms), for a switch that sends many messages in no hurry; default none. */
  readonly readEveryMs?: number;
  /** Called for an unsolicited message: packet-in, port status, flow removed, flow monitor, an error about a `send`. */
  readonly unsolicited?: (message: Uint8Array) => void;
}

/** Totals since the connection object was created, for metrics. */
export interface OpenFlowCounters {
  readonly flowMods: number;
  readonly groupMods: number;
  readonly meterMods: number;
  readonly bundles: number;
  readonly bundlesRefused: number;
  readonly connects: number;
}

/**
 * OpenFlow connection to one bridge, kept up until the signal of `run`.
 *
 * Messages are passed whole, encoded for the negotiated version; their transaction ids are overwritten.
 *
 * Every method that sends a request fails with `UNAVAILABLE` while the stream is down or when it is lost before the answer. Then
 * `context.sent` is `false` if the switch certainly changed nothing; otherwise the outcome is unknown. `REFUSED` means that the switch
 * answered with an error; its name is in `context.error`.
 */
export class OpenFlowConnection {
  readonly #options: OpenFlowConnectionOptions;
  readonly #endpoint: SocketEndpoint;
  readonly #counters = { flowMods: 0, groupMods: 0, meterMods: 0, bundles: 0, bundlesRefused: 0, connects: 0 };
  readonly #waiters = new Waiters('an OpenFlow connection');
  readonly #ids = new TransactionIds();
  #session: OpenFlowSession | undefined;
  #nextBundle = 1;

  /** @throws SeineError `INVALID_INPUT` if the endpoint is invalid */
  constructor(options: OpenFlowConnectionOptions) {
    this.#options = options;
    this.#endpoint = parseEndpoint(options.endpoint);
  }

  get #policy(): ReconnectPolicy {
    return this.#options.policy ?? localPolicy;
  }

  get #sessionOptions(): SessionOptions {
    const { versions = [OPENFLOW_15], windowBytes = defaultWindowBytes } = this.#options;
    return { versions, windowBytes, helloTimeoutMs: this.#policy.connectTimeoutMs, ids: this.#ids };
  }

  /** Negotiated version; `undefined` while the stream is down. */
  get version(): Version | undefined {
    return this.#session?.version;
  }

  /** Number of bytes that the switch has not acknowledged yet. */
  get unacknowledgedBytes(): number {
    return this.#session?.unacknowledgedBytes ?? 0;
  }

  get counters(): OpenFlowCounters {
    return { ...this.#counters };
  }

  get isUp(): boolean {
    return this.#session !== undefined;
  }

  /** Connects, and reconnects whenever the stream is lost. Resolves when the signal is aborted; never rejects. */
  run(signal: AbortSignal): Promise<void> {
    const { failed, readEveryMs } = this.#options;
    return keepConnected(
      {
        peer: this.#options.endpoint,
        dial: () => dialEndpoint(this.#endpoint, this.#options.credentials, readEveryMs === undefined ? {} : noReadAhead),
        policy: this.#policy,
        open: (socket) => {
          const session: OpenFlowSession = new OpenFlowSession(socket, this.#sessionOptions, {
            up: () => this.#up(session),
            down: (cause) => this.#down(cause),
            unsolicited: (message) => this.#options.unsolicited?.(message),
          });
          return session;
        },
        ...(failed === undefined ? {} : { failed }),
        ...(readEveryMs === undefined ? {} : { readEveryMs }),
      },
      signal,
    );
  }

  /** Waits until the stream is up. @throws SeineError `CANCELLED` */
  async untilUp(signal: AbortSignal): Promise<void> {
    await this.#waiters.wait(() => (this.#session === undefined ? undefined : true), signal);
  }

  /**
   * Sends messages that have no answer, such as packet-outs. Waits only if the switch reads too slowly. An error about one of them arrives
   * as an unsolicited message.
   */
  async send(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const session = this.#require();
    this.#check(messages, session);
    for (const message of messages) {
      if (!session.hasRoom(message.length)) await session.room(message.length, signal);
      this.#count(message);
      session.write(withXid(message, session.reserveXids(1)));
    }
  }

  /**
   * Applies changes one by one, in order, and waits until the switch has processed all of them. A refused change does not prevent the
   * others; for atomic changes use `bundle`.
   *
   * @throws SeineError `REFUSED` with `context.index`, the index of the first message that the switch refused, `context.error`, and
   *   `context.refusals`, the number of refused messages, the first hundred of them in `context.refused` (`index`, `error`); all others
   *   were applied. `UNAVAILABLE` and `CANCELLED`: `context.sent` is `false` if nothing was changed, otherwise the outcome is unknown.
   */
  async apply(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    const session = this.#require();
    this.#check(messages, session);
    for (const message of messages) this.#count(message);
    await runApply(session, messages, signal);
  }

  /** Sends one message and waits for its answer. @throws SeineError also `PROTOCOL`, if the reply is not an answer to it */
  async request(message: Uint8Array, signal: AbortSignal): Promise<Uint8Array> {
    return runRequest(this.#ask(message, signal), message, signal);
  }

  /**
   * Waits until the switch has processed everything sent before.
   *
   * Source: OpenFlow 1.5.1 section 7.3.7 "Barrier message".
   */
  async barrier(signal: AbortSignal): Promise<void> {
    const session = this.#require();
    await this.request(emptyMessage(messageType.barrierRequest, session.version), signal);
  }

  /**
   * Sends one multipart request and calls `visit` with the body of each part of the answer, as it arrives. The bodies are not kept; an
   * error thrown by `visit` fails the request.
   */
  async multipart(message: Uint8Array, visit: (body: Uint8Array) => void, signal: AbortSignal): Promise<void> {
    await runMultipart(this.#ask(message, signal), message, visit, signal);
  }

  /**
   * Calls `visit` with each flow, in no particular order. See `FlowStats` about keeping its bytes. A dump of all flows of the switch or of
   * a table is requested in chunks, between which the switch does other work: flows that are added or removed meanwhile may or may not be
   * visited.
   */
  async dumpFlows(filter: FlowFilter, visit: (entry: FlowStats) => void, signal: AbortSignal): Promise<void> {
    if (!isOfTables(filter)) return await this.#dumpPart(filter, visit, signal);
    const { version } = this.#require();
    const tables = await this.gather((w) => writeTableStatsRequest(w, version), decodeTableStats, signal);
    for (const part of flowParts(filter, tables)) await this.#dumpPart(part, visit, signal);
  }

  async #dumpPart(filter: FlowFilter, visit: (entry: FlowStats) => void, signal: AbortSignal): Promise<void> {
    const { version } = this.#require();
    const request = bytesOf((w) => writeFlowDescRequest(w, filter, version));
    await this.multipart(request, (body) => visitFlowEntries(body, visit, version), signal);
  }

  async aggregate(filter: FlowFilter, signal: AbortSignal): Promise<FlowAggregate> {
    const { version } = this.#require();
    const request = bytesOf((w) => writeAggregateRequest(w, filter, version));
    let sum: FlowAggregate = { flows: 0, packets: 0n, bytes: 0n };
    await this.multipart(request, (body) => (sum = decodeAggregate(body, version)), signal);
    return sum;
  }

  /**
   * Sends the multipart request that `write` writes, and collects the items that `decode` finds in the parts of the answer:
   * `gather(writePortDescRequest, decodePorts, signal)`. For small answers; use `multipart` for large ones.
   */
  async gather<T>(write: (w: ByteWriter) => void, decode: (body: Uint8Array) => readonly T[], signal: AbortSignal): Promise<T[]> {
    const found: T[] = [];
    let bytes = 0;
    await this.multipart(
      bytesOf(write),
      (body) => {
        bytes += body.length;
        if (bytes > maxGatheredBytes) throw new SeineError('PROTOCOL', `an answer of more than ${maxGatheredBytes} bytes`);
        for (const each of decode(body)) found.push(each);
      },
      signal,
    );
    return found;
  }

  /** Calls `visit` with each group like `visitGroupMods`. OpenFlow 1.5 only. */
  async visitGroups(visit: (id: number, message: Uint8Array) => void, signal: AbortSignal): Promise<void> {
    await this.multipart(bytesOf(writeGroupDescRequest), (body) => visitGroupMods(body, visit), signal);
  }

  /** Returns all groups with their buckets. */
  async dumpGroups(signal: AbortSignal): Promise<Group[]> {
    const { version } = this.#require();
    const write = (w: ByteWriter) =>
      version === OPENFLOW_13 ? writeMultipartRequest(w, multipartType.groupDesc, () => {}, version) : writeGroupDescRequest(w);
    return this.gather(write, (body) => decodeGroupDescriptions(body, version), signal);
  }

  /** Returns all meters with their bands. */
  async dumpMeters(signal: AbortSignal): Promise<Meter[]> {
    const { version } = this.#require();
    return this.gather((w) => writeMeterDescRequest(w, ALL_METERS, version), decodeMeters, signal);
  }

  /** Returns the statistics of all meters. */
  async dumpMeterStats(signal: AbortSignal): Promise<MeterStats[]> {
    const { version } = this.#require();
    return this.gather((w) => writeMeterStatsRequest(w, ALL_METERS, version), decodeMeterStats, signal);
  }

  /**
   * Applies all changes, in order and atomically.
   *
   * Takes two round trips: Open vSwitch 3.1 refuses a malformed or impossible message when it is added, and commits a bundle without the
   * messages that it refused. So the commit is sent only when a barrier has shown that all were accepted.
   *
   * @param messages flow-mods, group-mods, packet-outs (Open vSwitch accepts no meter-mod in a bundle); their transaction ids are
   *   overwritten. Many messages are best encoded lazily: the switch reads the first while the next are encoded
   * @throws SeineError `REFUSED` with `context.index`, the index of the message that the switch refused, and `context.error`. Nothing was
   *   changed. `UNAVAILABLE`: `context.sent` is `false` if nothing was changed, otherwise all or nothing was.
   */
  async bundle(messages: BundleMessages, signal: AbortSignal): Promise<void> {
    await this.#bundled(messages.length, (session, bundle) => {
      const checked = { length: messages.length, [Symbol.iterator]: () => this.#checked(messages, session) };
      return runBundle(session, { bundle, messages: checked }, signal);
    });
  }

  /**
   * Like `bundle`, in one round trip if the window has room for all of it: the commit is sent with the messages.
   *
   * @throws SeineError like `bundle`, and `UNAVAILABLE` with `context.inPart`: the switch refused the message at `context.index` when it
   *   was added, and applied all others
   */
  async bundleAtOnce(messages: readonly Uint8Array[], signal: AbortSignal): Promise<void> {
    await this.#bundled(messages.length, async (session, bundle) => {
      const checked = [...this.#checked(messages, session)];
      if (!(await runBundleAtOnce(session, { bundle, messages: checked }, signal)))
        await runBundle(session, { bundle, messages: checked }, signal);
    });
  }

  async #bundled(count: number, run: (session: OpenFlowSession, bundle: number) => Promise<void>): Promise<void> {
    if (count === 0) return;
    const session = this.#require();
    this.#counters.bundles++;
    const bundle = this.#nextBundle;
    this.#nextBundle = (this.#nextBundle % 0xffff_ffff) + 1;
    try {
      await run(session, bundle);
    } catch (thrown) {
      if (thrown instanceof SeineError && (thrown.code === 'REFUSED' || thrown.context['inPart'] === true)) this.#counters.bundlesRefused++;
      throw thrown;
    }
  }

  #up(session: OpenFlowSession): void {
    this.#session = session;
    this.#counters.connects++;
    const { greeting = [] } = this.#options;
    const messages = typeof greeting === 'function' ? greeting(session.version) : greeting;
    this.#check(messages, session);
    for (const message of messages) session.write(withXid(message, session.reserveXids(1)));
    this.#waiters.poke();
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

  /** @throws SeineError `INVARIANT` for bytes that are not a message, or are of another version: the switch would close the stream */
  #check(messages: readonly Uint8Array[], { version }: OpenFlowSession): void {
    for (const message of messages) {
      if (message.length < HEADER_BYTES || (message[2] ?? 0) * 256 + (message[3] ?? 0) !== message.length)
        throw new SeineError('INVARIANT', `${message.length} bytes are not an OpenFlow message`, { context: { sent: false } });
      if (message[0] === version) continue;
      const text = `message of OpenFlow version ${message[0]} on a connection of ${versionNames[version]}`;
      throw new SeineError('INVARIANT', text, { context: { sent: false } });
    }
  }

  *#checked(messages: BundleMessages, session: OpenFlowSession): Generator<Uint8Array> {
    for (const message of messages) {
      this.#check([message], session);
      this.#count(message);
      yield message;
    }
  }

  #count(message: Uint8Array): void {
    if (message[1] === messageType.flowMod) this.#counters.flowMods++;
    else if (message[1] === messageType.groupMod) this.#counters.groupMods++;
    else if (message[1] === messageType.meterMod) this.#counters.meterMods++;
  }

  /** Returns the session for a request. @throws SeineError like the requests themselves */
  #ask(message: Uint8Array, signal: AbortSignal): OpenFlowSession {
    if (signal.aborted) throw new SeineError('CANCELLED', 'OpenFlow request', { context: { sent: false } });
    const session = this.#require();
    this.#check([message], session);
    this.#count(message);
    return session;
  }
}

function emptyMessage(type: number, version: Version): Uint8Array {
  return bytesOf((w) => endMessage(w, beginMessage(w, type, version)));
}
