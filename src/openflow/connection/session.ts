import type { Socket } from 'node:net';
import type { Conversation } from '../../base/async/keep-connected.ts';
import { Waiters } from '../../base/async/waiters.ts';
import { ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { decodeMultipart, multipartType } from '../multipart.ts';
import { beginMessage, endMessage, HEADER_BYTES, messageType, readHeader, setXid, type Version, versionNames } from '../protocol.ts';
import { OpenFlowFramer } from './framer.ts';
import { agreedVersion, offeredVersions, writeHello } from './hello.ts';
import { SendWindow } from './send-window.ts';
import type { TransactionIds } from './transaction-ids.ts';

/** Waits for the answers to the messages whose transaction ids are in a range. */
export interface Expectation {
  readonly firstXid: number;
  readonly count: number;
  /** Called for a message with one of the ids. @returns whether it was the last one expected */
  answered(message: Uint8Array): 'more' | 'done';
  /** Called when the stream is lost; the request may have been executed. Called at most once, and never after `done`. */
  lost(cause: SeineError): void;
}

interface OpenFlowSessionEvents {
  /** Called when the version is agreed; everything may be sent. */
  up(): void;
  down(cause: SeineError): void;
  /** Called for a message that answers no expectation. */
  unsolicited(message: Uint8Array): void;
}

export interface SessionOptions {
  /** Versions to offer. */
  readonly versions: readonly Version[];
  /** Maximum time for the peer's hello (ms). */
  readonly helloTimeoutMs: number;
  /** See `OpenFlowConnectionOptions`. */
  readonly windowBytes: number;
  readonly ids: TransactionIds;
}

const maxExpectations = 1024;
/** Maximum time for reading answers in one turn of the event loop (ms), so that other work gets its turn; other jobs take 8 ms. */
const turnMs = 2;

/** One OpenFlow stream from its hello to its end: matches answers to requests, answers echoes, and bounds unacknowledged bytes. */
export class OpenFlowSession implements Conversation {
  readonly #socket: Socket;
  readonly #events: OpenFlowSessionEvents;
  readonly #options: SessionOptions;
  readonly #framer = new OpenFlowFramer();
  readonly #window: SendWindow;
  readonly #room = new Waiters('room in the OpenFlow send window');
  readonly #single = new Map<number, Expectation>();
  readonly #ranges: Expectation[] = [];
  readonly #helloTimer: NodeJS.Timeout;
  #version: Version | undefined;
  #closed: SeineError | undefined;
  /** Time at which reading began in this turn of the event loop; `undefined` between turns. */
  #turnStartMs: number | undefined;

  constructor(socket: Socket, options: SessionOptions, events: OpenFlowSessionEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#options = options;
    this.#window = new SendWindow(options.windowBytes);
    this.#socket.setMaxListeners(0);
    this.#helloTimer = setTimeout(() => {
      socket.destroy(new SeineError('UNAVAILABLE', `no OpenFlow hello within ${options.helloTimeoutMs} ms`));
    }, options.helloTimeoutMs);
    const w = new ByteWriter();
    writeHello(w, options.versions);
    this.#socket.write(w.finish());
  }

  /** Negotiated version. @throws SeineError `UNAVAILABLE` before negotiation */
  get version(): Version {
    if (this.#version === undefined) throw new SeineError('UNAVAILABLE', 'no OpenFlow version is agreed', { context: { sent: false } });
    return this.#version;
  }

  received(chunk: Uint8Array): void {
    const startMs = this.#turnStartMs ?? this.#beginTurn();
    for (const message of this.#framer.push(chunk)) this.#dispatch(message);
    if (performance.now() - startMs > turnMs) this.#socket.pause();
  }

  /** A peer that has not sent its hello gets no echo request: the hello has a deadline of its own. */
  probe(): void {
    if (this.#version === undefined) return;
    const w = new ByteWriter();
    endMessage(w, beginMessage(w, messageType.echoRequest, this.#version));
    this.#socket.write(w.finish());
  }

  closed(cause: SeineError): void {
    clearTimeout(this.#helloTimer);
    this.#closed = cause;
    const waiting = [...this.#single.values(), ...this.#ranges];
    this.#single.clear();
    this.#ranges.length = 0;
    for (const expectation of waiting) expectation.lost(cause);
    this.#room.poke();
    if (this.#version !== undefined) this.#events.down(cause);
    this.#version = undefined;
  }

  /** Allocates `count` consecutive ids. */
  reserveXids(count: number): number {
    return this.#options.ids.reserve(count);
  }

  /** @throws SeineError `UNAVAILABLE` if too many answers are outstanding */
  expect(expectation: Expectation): void {
    if (this.#single.size + this.#ranges.length >= maxExpectations) {
      throw new SeineError('UNAVAILABLE', `more than ${maxExpectations} OpenFlow requests at once`, { context: { sent: false } });
    }
    if (expectation.count === 1) this.#single.set(expectation.firstXid, expectation);
    else this.#ranges.push(expectation);
  }

  /** Cancels an expectation. Later answers are dropped. */
  forget(expectation: Expectation): void {
    if (expectation.count === 1) this.#single.delete(expectation.firstXid);
    const at = this.#ranges.indexOf(expectation);
    if (at >= 0) this.#ranges.splice(at, 1);
  }

  /** @param bytes whole messages; the socket keeps them, so they must not be written to again */
  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
    this.#window.wrote(bytes.length);
    if (bytes[1] === messageType.barrierRequest) this.#window.mark(readHeader(bytes).xid);
    else if (this.#window.markDue) this.#writeMark();
  }

  /** Writes a barrier request; its reply also acknowledges the bytes before it. */
  writeBarrier(xid: number): void {
    this.write(barrierRequest(xid, this.version));
  }

  /** Number of bytes that the switch has not acknowledged yet. */
  get unacknowledgedBytes(): number {
    return this.#window.unacknowledgedBytes;
  }

  hasRoom(bytes: number): boolean {
    return this.#closed === undefined && this.#window.hasRoom(bytes);
  }

  /**
   * Waits until this many bytes may be written: unacknowledged bytes never exceed the window.
   *
   * @throws SeineError `UNAVAILABLE` if the stream is lost, `CANCELLED`
   */
  async room(bytes: number, signal: AbortSignal): Promise<void> {
    if (this.#closed === undefined && this.#window.hasUnmarked) this.#writeMark();
    await this.#room.wait(() => {
      if (this.#closed !== undefined) throw new SeineError('UNAVAILABLE', 'OpenFlow connection lost', { cause: this.#closed });
      return this.#window.hasRoom(bytes) ? true : undefined;
    }, signal);
  }

  #writeMark(): void {
    if (this.#version !== undefined) this.writeBarrier(this.reserveXids(1));
  }

  /** Node reads a socket many times in one turn of the event loop; after `turnMs` the rest waits for the next turn. */
  #beginTurn(): number {
    this.#turnStartMs = performance.now();
    setImmediate(() => {
      this.#turnStartMs = undefined;
      if (this.#socket.isPaused()) this.#socket.resume();
    });
    return this.#turnStartMs;
  }

  #dispatch(message: Uint8Array): void {
    const { type, xid, version } = readHeader(message);
    if (this.#version === undefined) this.#greeted(message, type);
    else if (version !== this.#version)
      throw new SeineError('PROTOCOL', `message of OpenFlow version ${version} in a session of ${versionNames[this.#version]}`);
    else if (type === messageType.echoRequest) this.#echo(message);
    else if (type !== messageType.echoReply) this.#deliver(message, type, xid);
  }

  #greeted(message: Uint8Array, type: number): void {
    if (type !== messageType.hello) throw new SeineError('PROTOCOL', `message of type ${type} before the hello`);
    const { versions } = this.#options;
    const offered = offeredVersions(message);
    const agreed = agreedVersion(versions, offered);
    if (agreed === undefined) {
      this.#socket.write(helloFailed(versions));
      const ours = versions.map((each) => versionNames[each]).join(' nor ');
      throw new SeineError('UNAVAILABLE', `the switch does not support ${ours}`, { context: { offered: [...offered] } });
    }
    clearTimeout(this.#helloTimer);
    this.#version = agreed;
    this.#events.up();
  }

  #echo(request: Uint8Array): void {
    const reply = new Uint8Array(request);
    reply[1] = messageType.echoReply;
    this.#socket.write(reply);
  }

  #deliver(message: Uint8Array, type: number, xid: number): void {
    if (type === messageType.barrierReply && this.#window.acknowledge(xid)) this.#room.poke();
    const expectation = this.#single.get(xid) ?? this.#ranges.find((each) => xid >= each.firstXid && xid < each.firstXid + each.count);
    if (expectation === undefined) this.#unexpected(message);
    else if (expectation.answered(message) === 'done') this.forget(expectation);
  }

  #unexpected(message: Uint8Array): void {
    if (!isLateAnswer(message)) this.#events.unsolicited(message);
  }
}

/** Answers without a waiting caller belong to requests that timed out. */
const answerTypes: ReadonlySet<number> = new Set([
  messageType.featuresReply,
  messageType.getConfigReply,
  messageType.barrierReply,
  messageType.roleReply,
  messageType.getAsyncReply,
  messageType.bundleControl,
]);

function isLateAnswer(message: Uint8Array): boolean {
  const { type } = readHeader(message);
  if (type !== messageType.multipartReply) return answerTypes.has(type);
  const part = decodeMultipart(message);
  // Flow monitors report changes in multipart replies, those of OpenFlow 1.3 in replies of a vendor.
  return part.type !== multipartType.flowMonitor && part.type !== multipartType.experimenter;
}

/** Source: OpenFlow 1.5.1 `ofp_error_msg`: type 0 hello failed, code 0 incompatible. */
function helloFailed(versions: readonly Version[]): Uint8Array {
  const w = new ByteWriter();
  const start = beginMessage(w, messageType.error, versions.toSorted((a, b) => b - a)[0]);
  endMessage(w.u16(0).u16(0), start);
  return w.finish();
}

function barrierRequest(xid: number, version: Version): Uint8Array {
  const w = new ByteWriter(HEADER_BYTES);
  endMessage(w, beginMessage(w, messageType.barrierRequest, version));
  return w.patchU32(4, xid).finish();
}

/** Returns a copy of a message with another transaction id. */
export function withXid(message: Uint8Array, xid: number): Uint8Array {
  if (message.length < HEADER_BYTES) throw new SeineError('INVARIANT', `${message.length} bytes are not an OpenFlow message`);
  const copy = new Uint8Array(message);
  setXid(copy, xid);
  return copy;
}
