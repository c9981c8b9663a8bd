import { SeineError } from '../base/errors/seine-error.ts';
import { Attributes, aligned } from './attributes.ts';
import { littleEndian } from './sys.ts';

/*
 * struct nlmsghdr (linux/netlink.h), numbers in host byte order:
 *   u32 length (with header) · u16 type · u16 flags · u32 sequence · u32 port · payload · zeros up to a multiple of 4
 */
export const headerLength = 16;

/** `NLM_F_*`, netlink(7). The meaning of a bit depends on the kind of request. */
export const flag = {
  request: 0x1,
  ack: 0x4,
  dumpInterrupted: 0x10,
  acknowledgementIsCapped: 0x100,
  acknowledgementHasAttributes: 0x200,
  dump: 0x300,
  replace: 0x100,
  exclusive: 0x200,
  create: 0x400,
} as const;

/** Message types that every netlink family has. */
export const control = { error: 2, done: 3 } as const;

/** One received message. The payload shares the receive buffer: decode it before the next receive. */
export interface NetlinkMessage {
  readonly type: number;
  readonly flags: number;
  readonly sequence: number;
  /** Port of the socket that made the request or the change; 0 for the kernel itself. */
  readonly port: number;
  readonly payload: Uint8Array;
}

/** Splits a datagram into messages. @throws SeineError `PROTOCOL` if a length is impossible */
export function messagesIn(bytes: Uint8Array): NetlinkMessage[] {
  const messages: NetlinkMessage[] = [];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < bytes.length; ) {
    const left = bytes.length - at;
    const length = left < headerLength ? 0 : view.getUint32(at, littleEndian);
    if (length < headerLength || length > left)
      throw new SeineError('PROTOCOL', `netlink message at ${at} declares ${length} bytes, ${left} left`);
    messages.push({
      type: view.getUint16(at + 4, littleEndian),
      flags: view.getUint16(at + 6, littleEndian),
      sequence: view.getUint32(at + 8, littleEndian),
      port: view.getUint32(at + 12, littleEndian),
      payload: bytes.subarray(at + headerLength, at + length),
    });
    at += aligned(length);
  }
  return messages;
}

/** Returns the fixed part of a payload as a view, and the attributes after it. @throws SeineError `PROTOCOL` if it is too short */
export function splitPayload(
  payload: Uint8Array,
  fixed: number,
  what: string,
): { readonly head: DataView; readonly attributes: Attributes } {
  if (payload.length < fixed) throw new SeineError('PROTOCOL', `${what}: ${fixed} bytes expected, ${payload.length} received`);
  return { head: new DataView(payload.buffer, payload.byteOffset, fixed), attributes: new Attributes(payload.subarray(fixed), what) };
}

/** The subject of a message of a batch, for errors, and its position. */
interface BatchEntry {
  readonly what: string;
  readonly start: number;
  readonly end: number;
}

/** Requests that are sent together. The kernel executes them in order, and continues after one that fails. */
export class Batch {
  #bytes = new Uint8Array(1024);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;
  readonly #entries: BatchEntry[] = [];

  get entries(): readonly BatchEntry[] {
    return this.#entries;
  }

  /** All bytes written; valid until the next message is added. */
  get bytes(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /** @param flags without `request` and `ack`, which every message gets; @param what for errors: `create veth web-0` */
  message(type: number, flags: number, what: string, body: (batch: this) => void): this {
    return this.#write(type, flags | flag.request | flag.ack, what, body);
  }

  /** Adds a request for a list. It is not acknowledged; the list has an end marker. */
  dumpRequest(type: number, what: string, body: (batch: this) => void): this {
    return this.#write(type, flag.request | flag.dump, what, body);
  }

  #write(type: number, flags: number, what: string, body: (batch: this) => void): this {
    const start = this.#length;
    this.u32(0).u16(type).u16(flags).u32(0).u32(0);
    body(this);
    this.#view.setUint32(start, this.#length - start, littleEndian);
    this.#entries.push({ what, start, end: this.#length });
    return this;
  }

  /** Numbers the messages from `first` on; the acknowledgements carry these numbers. */
  number(first: number): void {
    for (const [index, { start }] of this.#entries.entries()) this.#view.setUint32(start + 8, (first + index) >>> 0, littleEndian);
  }

  u8(value: number): this {
    const at = this.#advance(1);
    this.#view.setUint8(at, inRange(value, 0xff));
    return this;
  }

  u16(value: number): this {
    const at = this.#advance(2);
    this.#view.setUint16(at, inRange(value, 0xffff), littleEndian);
    return this;
  }

  u32(value: number): this {
    const at = this.#advance(4);
    this.#view.setUint32(at, inRange(value, 0xffff_ffff), littleEndian);
    return this;
  }

  attribute(type: number, value: Uint8Array): this {
    this.u16(value.length + 4).u16(type);
    const at = this.#advance(aligned(value.length));
    this.#bytes.set(value, at);
    return this;
  }

  attributeU8(type: number, value: number): this {
    return this.attribute(type, Uint8Array.of(inRange(value, 0xff)));
  }

  attributeU32(type: number, value: number): this {
    return this.u16(8).u16(type).u32(value);
  }

  /** A C string with its NUL. */
  attributeText(type: number, text: string): this {
    return this.attribute(type, Buffer.from(`${text}\0`, 'utf8'));
  }

  nested(type: number, body: (batch: this) => void): this {
    const start = this.#length;
    this.u16(0).u16(type);
    body(this);
    this.#view.setUint16(start, inRange(this.#length - start, 0xffff), littleEndian);
    return this;
  }

  /** Advances the offset. New bytes are zero, so padding need not be written. */
  #advance(count: number): number {
    const at = this.#length;
    this.#length += count;
    if (this.#length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#length, this.#bytes.length * 2));
      grown.set(this.#bytes);
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }
}

function inRange(value: number, max: number): number {
  if (!Number.isInteger(value) || value < 0 || value > max) throw new SeineError('INVARIANT', `${value} does not fit in 0..${max}`);
  return value;
}
