import { SeineError } from '../base/errors/seine-error.ts';
import { Attributes, aligned } from './attributes.ts';
import { amended, errnoOf, kernelError } from './errno.ts';
import { Batch, control, flag, headerLength, messagesIn, type NetlinkMessage } from './message.ts';
import type { NetworkNamespace } from './namespace.ts';
import { SOCK_RAW, SOL_SOCKET } from './sockets/socket-address.ts';
import {
  bind,
  getSocketOption,
  littleEndian,
  type OwnedFd,
  receive,
  receiveOffThread,
  send,
  sendOffThread,
  setSocketOption,
  socket,
  socketName,
} from './sys.ts';

interface NetlinkSocketOptions {
  /**
   * Default: routing (rtnetlink(7)); `socketDiagnosis` is sock_diag(7); `netfilter` is nfnetlink, for nftables; `generic` is shared by
   * other families.
   */
  readonly protocol?: keyof typeof protocols;
  /** Namespace of the socket, for its whole life; default: the caller's own. */
  readonly namespace?: NetworkNamespace;
  /** Groups to subscribe to (`RTNLGRP_*` numbers, not bits). */
  readonly groups?: readonly number[];
  /** Maximum number of bytes of answers or events in the kernel's queue. */
  readonly receiveQueueBytes?: number;
}

/** List to request: see `dump`. */
export interface ListRequest<T> {
  readonly type: number;
  /** Subject, for errors. */
  readonly what: string;
  /** Writes the fixed part and the filter attributes. */
  readonly body: (batch: Batch) => void;
  /** Returns `undefined` for an item that does not belong in the list; must copy bytes that it keeps. */
  readonly decode: (message: NetlinkMessage) => T | undefined;
}

/**
 * Netlink socket, of routing (rtnetlink(7)) by default, that stays in the network namespace it was opened in.
 *
 * The kernel answers while the request is being sent, so nothing here waits: when `send` returns, the answers are in the receive queue.
 */
export class NetlinkSocket {
  readonly #fd: OwnedFd;
  #sequence = Math.floor(Math.random() * 0x8000_0000); // answers to a previous owner of our port number do not fit
  #busy = false;

  private constructor(fd: OwnedFd) {
    this.#fd = fd;
  }

  /** The caller closes it. */
  static open({ protocol = 'route', namespace, groups = [], receiveQueueBytes = 1024 * 1024 }: NetlinkSocketOptions = {}): NetlinkSocket {
    const make = () => socket(AF_NETLINK, SOCK_RAW, protocols[protocol], 'netlink socket');
    const fd = namespace ? namespace.run(make) : make();
    try {
      const address = new Uint8Array(12); // struct sockaddr_nl; port 0 lets the kernel choose
      new DataView(address.buffer).setUint16(0, AF_NETLINK, littleEndian);
      bind(fd.number, address, 'netlink socket');
      setSocketOption(fd.number, SOL_SOCKET, SO_RCVBUFFORCE, receiveQueueBytes);
      setSocketOption(fd.number, SOL_NETLINK, NETLINK_EXT_ACK, 1);
      setSocketOption(fd.number, SOL_NETLINK, NETLINK_CAP_ACK, 1);
      setSocketOption(fd.number, SOL_NETLINK, NETLINK_GET_STRICT_CHK, 1);
      for (const group of groups) setSocketOption(fd.number, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, group);
      return new NetlinkSocket(fd);
    } catch (error) {
      fd.close();
      throw error;
    }
  }

  /** Descriptor for `Watch`. Belongs to this object. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * Cookie of the socket's network namespace, which no other namespace gets until the host reboots: inodes of namespaces are reused at
   * once. Source: `SO_NETNS_COOKIE`, since Linux 5.14.
   *
   * @returns undefined on an older kernel
   */
  get namespaceCookie(): string | undefined {
    try {
      const bytes = getSocketOption(this.#fd.number, SOL_SOCKET, SO_NETNS_COOKIE, 8);
      return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, littleEndian).toString();
    } catch (error) {
      if (errnoOf(error) === 'ENOPROTOOPT') return undefined;
      throw error;
    }
  }

  /** Source of changes in the kernel's group messages: `nl_pid` of `struct sockaddr_nl`. */
  get port(): number {
    const address = socketName(this.#fd.number, 12);
    return new DataView(address.buffer, address.byteOffset, address.length).getUint32(4, littleEndian);
  }

  close(): void {
    this.#fd.close();
  }

  /**
   * Executes a batch. Messages after one that fails are executed all the same.
   *
   * @throws SeineError of the first message that failed: `REFUSED` with `errno`, `index` and `failed` (how many), or `UNAVAILABLE` if an
   *   answer was lost and the outcome is unknown
   */
  transact(batch: Batch): void {
    throwFirst(this.attempt(batch));
  }

  /** Like `transact`, with one answer for each message: `undefined` if it was done, or the error. */
  attempt(batch: Batch): (SeineError | undefined)[] {
    this.#begin(batch);
    const results: (SeineError | undefined)[] = [];
    for (const { from, to, bytes } of batches(batch)) {
      send(this.#fd.number, bytes, batch.entries[from]?.what ?? 'netlink request');
      results.push(...this.#acknowledgements(batch, from, to));
    }
    return results;
  }

  /** Like `transact`, but the kernel works in a thread of libuv's pool. The socket does nothing else meanwhile. */
  async transactOffThread(batch: Batch): Promise<void> {
    throwFirst(await this.attemptOffThread(batch));
  }

  /** Like `attempt`, but the kernel works in a thread of libuv's pool. The socket does nothing else meanwhile. */
  async attemptOffThread(batch: Batch): Promise<(SeineError | undefined)[]> {
    this.#begin(batch);
    this.#busy = true;
    try {
      const results: (SeineError | undefined)[] = [];
      for (const { from, to, bytes } of batches(batch)) {
        await sendOffThread(this.#fd.number, bytes, batch.entries[from]?.what ?? 'netlink request');
        results.push(...this.#acknowledgements(batch, from, to));
      }
      return results;
    } finally {
      this.#busy = false;
    }
  }

  /** Lists objects. A list that changed while it was read is read again. For the parameters see `ListRequest`. */
  dump<T>(type: number, what: string, body: ListRequest<T>['body'], decode: ListRequest<T>['decode']): T[] {
    return this.list({ type, what, body, decode });
  }

  list<T>({ type, what, body, decode }: ListRequest<T>): T[] {
    const request = new Batch().dumpRequest(type, what, body);
    for (let attempt = 0; attempt < dumpAttempts; attempt++) {
      const dump = this.#beginDump(request, what, decode);
      send(this.#fd.number, request.bytes, what);
      while (dump.state === 'reading') dump.read(this.#receive(what));
      if (dump.state === 'whole') return dump.found;
    }
    throw neverTheSame(what);
  }

  /**
   * Like `dump`, but the kernel works in a thread of libuv's pool, and the loop has its turn after each part of the list. The socket must
   * not be used meanwhile. Objects that change while the list is read may be missing, or be in it twice.
   */
  async listOffThread<T>({ type, what, body, decode }: ListRequest<T>): Promise<T[]> {
    const request = new Batch().dumpRequest(type, what, body);
    const into = new Uint8Array(dumpPartBytes);
    for (let attempt = 0; attempt < dumpAttempts; attempt++) {
      const dump = this.#beginDump(request, what, decode);
      this.#busy = true;
      try {
        await sendOffThread(this.#fd.number, request.bytes, what);
        while (dump.state === 'reading') {
          const length = await receiveOffThread(this.#fd.number, into, what).catch(orDropped(what));
          dump.read(length === 'empty' ? length : messagesIn(into.subarray(0, length)));
        }
      } finally {
        this.#busy = false;
      }
      if (dump.state === 'whole') return dump.found;
    }
    throw neverTheSame(what);
  }

  /** Requests one object. `undefined` if it does not exist (ENODEV, ENXIO, ENOENT, ESRCH, EADDRNOTAVAIL). */
  get<T>(type: number, what: string, body: (batch: Batch) => void, decode: (message: NetlinkMessage) => T): T | undefined {
    const batch = new Batch().message(type, 0, what, body);
    this.#begin(batch);
    send(this.#fd.number, batch.bytes, what);
    return this.#found(batch, decode);
  }

  /** Like `get`, but the kernel works in a thread of libuv's pool. The socket does nothing else meanwhile. */
  async getOffThread<T>(
    type: number,
    what: string,
    body: (batch: Batch) => void,
    decode: (message: NetlinkMessage) => T,
  ): Promise<T | undefined> {
    const batch = new Batch().message(type, 0, what, body);
    this.#begin(batch);
    this.#busy = true;
    try {
      await sendOffThread(this.#fd.number, batch.bytes, what);
    } finally {
      this.#busy = false;
    }
    return this.#found(batch, decode);
  }

  /** Returns unsolicited messages of the groups. `empty` when there is none left. Valid until the next receive. */
  receiveEvents(): readonly NetlinkMessage[] | 'empty' {
    const length = receive(this.#fd.number, receiveBuffer, 'netlink');
    return length === 'empty' ? 'empty' : messagesIn(receiveBuffer.subarray(0, length));
  }

  #found<T>(batch: Batch, decode: (message: NetlinkMessage) => T): T | undefined {
    let found: T | undefined;
    const [failure] = this.#acknowledgements(batch, 0, 1, (message) => (found = decode(message)));
    if (failure === undefined) return found;
    if (['ENODEV', 'ENXIO', 'ENOENT', 'ESRCH', 'EADDRNOTAVAIL'].includes(errnoOf(failure) ?? '')) return undefined;
    throw failure;
  }

  #begin(batch: Batch): void {
    if (this.#busy) throw new SeineError('INVARIANT', 'this netlink socket is at work in another thread');
    batch.number(this.#sequence);
    this.#sequence = (this.#sequence + batch.entries.length) >>> 0;
  }

  /** Reads the answers to messages `from` up to `to`; their numbers end at the socket's counter. */
  #acknowledgements(batch: Batch, from: number, to: number, onData?: (message: NetlinkMessage) => void): (SeineError | undefined)[] {
    const first = (this.#sequence - batch.entries.length + from) >>> 0;
    const results: (SeineError | undefined)[] = Array(to - from).fill(undefined);
    let missing = to - from;
    while (missing > 0) {
      const messages = this.#receive(batch.entries[from]?.what ?? 'netlink request');
      if (messages === 'empty') throw new SeineError('UNAVAILABLE', `${batch.entries[from]?.what}: ${missing} answers are missing`);
      for (const message of messages) {
        const index = (message.sequence - first) >>> 0;
        if (index >= to - from) continue; // an answer to a request that timed out
        if (message.type !== control.error) {
          onData?.(message);
          continue;
        }
        results[index] = failureIn(message, batch.entries[from + index]?.what ?? '', from + index);
        missing--;
      }
    }
    return results;
  }

  #beginDump<T>(request: Batch, what: string, decode: ListRequest<T>['decode']): Dump<T> {
    this.#begin(request);
    return new Dump(what, (this.#sequence - 1) >>> 0, decode);
  }

  #receive(what: string): NetlinkMessage[] | 'empty' {
    try {
      const length = receive(this.#fd.number, receiveBuffer, what);
      return length === 'empty' ? 'empty' : messagesIn(receiveBuffer.subarray(0, length));
    } catch (error) {
      return orDropped(what)(error);
    }
  }
}

/** One reading of a list. */
class Dump<T> {
  readonly found: T[] = [];
  readonly #what: string;
  readonly #sequence: number;
  readonly #decode: ListRequest<T>['decode'];
  #state: 'reading' | 'whole' | 'changed' = 'reading';
  #interrupted = false;

  constructor(what: string, sequence: number, decode: ListRequest<T>['decode']) {
    this.#what = what;
    this.#sequence = sequence;
    this.#decode = decode;
  }

  get state(): 'reading' | 'whole' | 'changed' {
    return this.#state;
  }

  read(messages: readonly NetlinkMessage[] | 'empty'): void {
    if (messages === 'empty') throw new SeineError('UNAVAILABLE', `${this.#what}: the list has no end marker`);
    for (const message of messages) if (message.sequence === this.#sequence && this.#state === 'reading') this.#readOne(message);
    if (this.found.length > dumpLimit) throw new SeineError('PROTOCOL', `${this.#what}: more than ${dumpLimit} entries`);
  }

  #readOne(message: NetlinkMessage): void {
    if ((message.flags & flag.dumpInterrupted) !== 0) this.#interrupted = true;
    const end = endOfDump(message, this.#what);
    if (end === 'end') this.#state = this.#interrupted ? 'changed' : 'whole';
    else if (end !== undefined) throw end;
    else {
      const item = this.#decode(message);
      if (item !== undefined) this.found.push(item);
    }
  }
}

function orDropped(what: string): (error: unknown) => never {
  return (error) => {
    if (errnoOf(error) !== 'ENOBUFS') throw error;
    throw new SeineError('UNAVAILABLE', `${what}: the kernel dropped answers`, { cause: error });
  };
}

function neverTheSame(what: string): SeineError {
  return new SeineError('UNAVAILABLE', `${what}: the list changed while it was read, ${dumpAttempts} times`);
}

/** The kernel fills at most 32 KiB of a dump at once, and any single message is far smaller. Used within one tick only. */
const receiveBuffer = new Uint8Array(256 * 1024);
const dumpPartBytes = 64 * 1024;
const dumpAttempts = 20;
const dumpLimit = 1_000_000;

/** An acknowledgement takes about 1 KiB of the receive queue, and a datagram may not exceed the send queue. */
const messagesPerSend = 128;
const bytesPerSend = 64 * 1024;

const AF_NETLINK = 16;
/** NETLINK_ROUTE, NETLINK_NETFILTER and NETLINK_GENERIC, linux/netlink.h. */
const protocols = { route: 0, socketDiagnosis: 4, netfilter: 12, generic: 16 } as const;
const SO_RCVBUFFORCE = 33;
const SO_NETNS_COOKIE = 71;
const SOL_NETLINK = 270;
const NETLINK_ADD_MEMBERSHIP = 1;
const NETLINK_CAP_ACK = 10;
const NETLINK_EXT_ACK = 11;
const NETLINK_GET_STRICT_CHK = 12;

function* batches(batch: Batch): Generator<{ readonly from: number; readonly to: number; readonly bytes: Uint8Array }> {
  const { entries, bytes } = batch;
  for (let from = 0; from < entries.length; ) {
    const start = entries[from]?.start ?? 0;
    let to = from + 1;
    while (to < entries.length && to - from < messagesPerSend && (entries[to]?.end ?? 0) - start <= bytesPerSend) to++;
    yield { from, to, bytes: bytes.subarray(start, entries[to - 1]?.end) };
    from = to;
  }
}

function throwFirst(results: readonly (SeineError | undefined)[]): void {
  const failures = results.filter((result) => result !== undefined);
  const [first] = failures;
  if (first === undefined) return;
  if (failures.length === 1) throw first;
  throw amended(first, ` (and ${failures.length - 1} more failed)`, { failed: failures.length });
}

/**
 * Reads a struct nlmsgerr: i32 error (0 or −errno) · header of the request · [payload of the request] · attributes. Attribute 1 is a
 * sentence for humans (`NLMSGERR_ATTR_MSG`).
 */
function failureIn(message: NetlinkMessage, what: string, index: number): SeineError | undefined {
  const { payload } = message;
  if (payload.length < 4) throw new SeineError('PROTOCOL', `${what}: an acknowledgement of ${payload.length} bytes`);
  const view = new DataView(payload.buffer, payload.byteOffset, payload.length);
  const error = view.getInt32(0, littleEndian);
  if (error === 0) return undefined;
  const reason = reasonIn(message, view);
  return kernelError('netlink', -error, reason === undefined ? what : `${what}: ${reason}`, {
    context: reason === undefined ? { index } : { index, reason },
  });
}

function reasonIn(message: NetlinkMessage, view: DataView): string | undefined {
  if ((message.flags & flag.acknowledgementHasAttributes) === 0 || view.byteLength < 4 + headerLength) return undefined;
  const capped = (message.flags & flag.acknowledgementIsCapped) !== 0;
  const request = capped ? headerLength : aligned(view.getUint32(4, littleEndian));
  return new Attributes(message.payload.subarray(4 + request), 'acknowledgement').text(1);
}

function endOfDump(message: NetlinkMessage, what: string): 'end' | SeineError | undefined {
  if (message.type === control.error) return failureIn(message, what, 0) ?? 'end';
  if (message.type !== control.done) return undefined;
  const view = new DataView(message.payload.buffer, message.payload.byteOffset, message.payload.length);
  const error = message.payload.length >= 4 ? view.getInt32(0, littleEndian) : 0;
  return error < 0 ? kernelError('netlink', -error, what) : 'end';
}
