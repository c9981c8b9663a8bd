import type { Socket } from 'node:net';
import type { Conversation } from '../async/keep-connected.ts';
import { SeineError } from '../errors/seine-error.ts';
import { ByteWriter } from '../wire/bytes.ts';
import { OpenFlowFramer } from './framer.ts';
import { offeredVersions, writeHello } from './hello.ts';
import { decodeMultipart, multipartType } from './multipart.ts';
import { beginMessage, endMessage, HEADER_BYTES, messageType, OPENFLOW_15, readHeader, setXid } from './protocol.ts';

/** Waits for the answers to the messages whose transaction ids lie in a range. */
export interface Expectation {
  readonly firstXid: number;
  readonly count: number;
  /** A message with one of the ids came. @returns whether that was the last one expected */
  answered(message: Uint8Array): 'more' | 'done';
  /** The stream is gone; what was asked may have happened. Called at most once, and never after `done`. */
  lost(cause: SeineError): void;
}

export interface SessionEvents {
  /** Versions are agreed; everything may be sent. */
  up(): void;
  down(cause: SeineError): void;
  /** A message that answers nothing that is expected. */
  unsolicited(message: Uint8Array): void;
}

const maxExpectations = 1024;
/** Bytes in Node's hands above which senders wait. */
const highWaterBytes = 1024 * 1024;

/** One OpenFlow stream from its hello to its end: matches answers to requests, answers echoes, bounds what is unsent. */
export class OpenFlowSession implements Conversation {
  readonly #socket: Socket;
  readonly #events: SessionEvents;
  readonly #framer = new OpenFlowFramer();
  readonly #single = new Map<number, Expectation>();
  readonly #ranges: Expectation[] = [];
  #nextXid = 1;
  #isUp = false;

  constructor(socket: Socket, events: SessionEvents) {
    this.#socket = socket;
    this.#events = events;
    this.#socket.setMaxListeners(0);
    const w = new ByteWriter();
    writeHello(w);
    this.#socket.write(w.finish());
  }

  received(chunk: Uint8Array): void {
    for (const message of this.#framer.push(chunk)) this.#dispatch(message);
  }

  probe(): void {
    const w = new ByteWriter();
    endMessage(w, beginMessage(w, messageType.echoRequest));
    this.#socket.write(w.finish());
  }

  closed(cause: SeineError): void {
    const waiting = [...this.#single.values(), ...this.#ranges];
    this.#single.clear();
    this.#ranges.length = 0;
    for (const expectation of waiting) expectation.lost(cause);
    if (this.#isUp) this.#events.down(cause);
    this.#isUp = false;
  }

  /** Lends `count` ids in a row. */
  reserveXids(count: number): number {
    if (this.#nextXid + count > 0xffff_ffff) this.#nextXid = 1;
    const first = this.#nextXid;
    this.#nextXid += count;
    return first;
  }

  /** @throws SeineError `UNAVAILABLE` if too many answers are waited for already */
  expect(expectation: Expectation): void {
    if (this.#single.size + this.#ranges.length >= maxExpectations) {
      throw new SeineError('UNAVAILABLE', `more than ${maxExpectations} OpenFlow requests at once`, { context: { sent: false } });
    }
    if (expectation.count === 1) this.#single.set(expectation.firstXid, expectation);
    else this.#ranges.push(expectation);
  }

  /** Takes an expectation back. Answers that still come are dropped. */
  forget(expectation: Expectation): void {
    if (expectation.count === 1) this.#single.delete(expectation.firstXid);
    const at = this.#ranges.indexOf(expectation);
    if (at >= 0) this.#ranges.splice(at, 1);
  }

  /** @param bytes whole messages; the socket keeps them, so they must not be written to again */
  write(bytes: Uint8Array): void {
    this.#socket.write(bytes);
  }

  get isCongested(): boolean {
    return this.#socket.writableLength > highWaterBytes;
  }

  /** Waits until the peer has taken most of what was written, the stream is gone, or the signal. */
  drained(signal: AbortSignal): Promise<void> {
    if (!this.isCongested || this.#socket.destroyed || signal.aborted) return Promise.resolve();
    return new Promise((resolve) => {
      const done = () => {
        this.#socket.off('drain', done).off('close', done);
        signal.removeEventListener('abort', done);
        resolve();
      };
      this.#socket.once('drain', done).once('close', done);
      signal.addEventListener('abort', done, { once: true });
    });
  }

  #dispatch(message: Uint8Array): void {
    const { type, xid, version } = readHeader(message);
    if (!this.#isUp) this.#greeted(message, type);
    else if (version !== OPENFLOW_15)
      throw new SeineError('PROTOCOL', `message of OpenFlow version ${version} in a session of version ${OPENFLOW_15}`);
    else if (type === messageType.echoRequest) this.#echo(message);
    else if (type !== messageType.echoReply) this.#deliver(message, xid);
  }

  #greeted(message: Uint8Array, type: number): void {
    if (type !== messageType.hello) throw new SeineError('PROTOCOL', `message of type ${type} before the hello`);
    const offered = offeredVersions(message);
    if (!offered.has(OPENFLOW_15)) {
      this.#socket.write(helloFailed());
      throw new SeineError('UNAVAILABLE', 'the switch does not speak OpenFlow 1.5', { context: { offered: [...offered] } });
    }
    this.#isUp = true;
    this.#events.up();
  }

  #echo(request: Uint8Array): void {
    const reply = new Uint8Array(request);
    reply[1] = messageType.echoReply;
    this.#socket.write(reply);
  }

  #unexpected(message: Uint8Array): void {
    if (!isLateAnswer(message)) this.#events.unsolicited(message);
  }

  #deliver(message: Uint8Array, xid: number): void {
    const expectation = this.#single.get(xid) ?? this.#ranges.find((each) => xid >= each.firstXid && xid < each.firstXid + each.count);
    if (expectation === undefined) this.#unexpected(message);
    else if (expectation.answered(message) === 'done') this.forget(expectation);
  }
}

/** Answers that nobody waits for any more belong to requests that were given up. */
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
  return type === messageType.multipartReply ? decodeMultipart(message).type !== multipartType.flowMonitor : answerTypes.has(type);
}

/** Source: OpenFlow 1.5.1 `ofp_error_msg`: type 0 hello failed, code 0 incompatible. */
function helloFailed(): Uint8Array {
  const w = new ByteWriter();
  const start = beginMessage(w, messageType.error);
  endMessage(w.u16(0).u16(0), start);
  return w.finish();
}

/** A copy of a message under another transaction id. */
export function withXid(message: Uint8Array, xid: number): Uint8Array {
  if (message.length < HEADER_BYTES) throw new SeineError('INVARIANT', `${message.length} bytes are no OpenFlow message`);
  const copy = new Uint8Array(message);
  setXid(copy, xid);
  return copy;
}
