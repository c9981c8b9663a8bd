import { isUtf8 } from 'node:buffer';
import { SeineError } from '../base/errors/seine-error.ts';

/** JSON text cut out of the stream, not parsed yet. */
export interface JsonFrame {
  readonly text: string;
  /** Set if it contains, outside of strings, a run of digits too long for an exact `number`. */
  readonly wideNumbers: boolean;
  /** Offset of its first byte from the start of the stream. */
  readonly offset: number;
}

export interface FrameLimits {
  readonly maxBytes: number;
  readonly maxDepth: number;
}

/**
 * Default limits. The first copy of a large database is one message. `ovsdb-server` itself stops at a depth of 1000; ours never needs 20.
 */
export const defaultFrameLimits: FrameLimits = { maxBytes: 128 * 1024 * 1024, maxDepth: 64 };

/** 2^53 has 16 digits: any shorter run is exact. */
const wideDigits = 16;

const quote = 0x22;
const backslash = 0x5c;
const openBrace = 0x7b;
const closeBrace = 0x7d;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const zero = 0x30;
const nine = 0x39;

/**
 * Splits a byte stream into JSON-RPC messages: objects one after another, with nothing or white space between.
 *
 * Works on bytes and decodes afterwards, so that a character split between two reads is not lost. It counts brackets and skips strings; the
 * parser checks whether the text is JSON.
 *
 * Source: RFC 7047 section 4 (JSON-RPC 1.0 over a stream, without framing), RFC 8259.
 */
export class JsonFramer {
  readonly #limits: FrameLimits;
  /** Bytes of the message that began in an earlier chunk, at the start of a buffer that grows: a peer may send them one by one. */
  #held = nothing;
  #heldBytes = 0;
  /** Offsets of the chunk, and of the message, in the stream. */
  #chunkOffset = 0;
  #offset = 0;
  #depth = 0;
  #inString = false;
  #escaped = false;
  #digits = 0;
  #wide = false;

  constructor(limits: FrameLimits = defaultFrameLimits) {
    this.#limits = limits;
  }

  /**
   * Returns the messages that this chunk completes. A chunk may have any size.
   *
   * @throws SeineError `PROTOCOL`, with the offset in the stream, if a message is not an object, a limit is exceeded, or a text is not
   *   UTF-8. The stream is then unusable.
   */
  push(chunk: Uint8Array): JsonFrame[] {
    const frames: JsonFrame[] = [];
    let start = this.#depth > 0 ? 0 : -1;
    let at = 0;
    while (at < chunk.length) {
      if (start < 0) {
        at = this.#findObject(chunk, at);
        if (at === chunk.length) break;
        start = at;
        this.#offset = this.#chunkOffset + at;
      }
      at = this.#inString ? this.#skipString(chunk, at) : this.#skipStructure(chunk, at);
      if (this.#depth === 0) {
        frames.push(this.#take(chunk.subarray(start, at)));
        start = -1;
      }
    }
    if (start >= 0) this.#hold(chunk.subarray(start));
    this.#chunkOffset += chunk.length;
    return frames;
  }

  #findObject(chunk: Uint8Array, from: number): number {
    for (let at = from; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (byte === openBrace) return at;
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) {
        throw new SeineError('PROTOCOL', `JSON-RPC: byte ${byte} where a message should begin, at ${this.#chunkOffset + at}`);
      }
    }
    return chunk.length;
  }

  /** Continues after the end of the string, or to the end of the chunk. */
  #skipString(chunk: Uint8Array, from: number): number {
    let escaped = this.#escaped;
    let at = from;
    for (; at < chunk.length; at += 1) {
      const byte = chunk[at];
      if (escaped) escaped = false;
      else if (byte === backslash) escaped = true;
      else if (byte === quote) {
        this.#inString = false;
        at += 1;
        break;
      }
    }
    this.#escaped = escaped;
    return at;
  }

  /** Continues into the next string, after the end of the message, or to the end of the chunk. */
  #skipStructure(chunk: Uint8Array, from: number): number {
    let digits = this.#digits;
    let at = from;
    while (at < chunk.length && !this.#inString) {
      const byte = chunk[at] ?? 0;
      at += 1;
      if (byte >= zero && byte <= nine) {
        digits += 1;
        if (digits >= wideDigits) this.#wide = true;
        continue;
      }
      digits = 0;
      if (byte === quote) this.#inString = true;
      else if (byte === openBrace || byte === openBracket) this.#descend();
      else if (byte === closeBrace || byte === closeBracket) {
        this.#depth -= 1;
        if (this.#depth === 0) break;
      }
    }
    this.#digits = digits;
    return at;
  }

  #descend(): void {
    this.#depth += 1;
    if (this.#depth > this.#limits.maxDepth) throw this.#broken(`is nested deeper than ${this.#limits.maxDepth}`);
  }

  #hold(bytes: Uint8Array): void {
    const size = this.#heldBytes + bytes.length;
    this.#checkSize(size);
    if (size > this.#held.length) {
      const grown = Buffer.allocUnsafe(Math.max(size, 2 * this.#held.length));
      this.#held.copy(grown, 0, 0, this.#heldBytes);
      this.#held = grown;
    }
    this.#held.set(bytes, this.#heldBytes);
    this.#heldBytes = size;
  }

  #take(last: Uint8Array): JsonFrame {
    this.#checkSize(this.#heldBytes + last.length);
    if (this.#heldBytes > 0) this.#hold(last);
    const bytes = this.#heldBytes > 0 ? this.#held.subarray(0, this.#heldBytes) : last;
    if (!isUtf8(bytes)) throw this.#broken('is not UTF-8');
    const text = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8');
    const frame = { text, wideNumbers: this.#wide, offset: this.#offset };
    this.#held = nothing;
    this.#heldBytes = 0;
    this.#digits = 0;
    this.#wide = false;
    return frame;
  }

  #checkSize(bytes: number): void {
    if (bytes > this.#limits.maxBytes) throw this.#broken(`is longer than ${this.#limits.maxBytes} bytes`);
  }

  #broken(why: string): SeineError {
    return new SeineError('PROTOCOL', `JSON-RPC: message at ${this.#offset} ${why}`);
  }
}

const nothing = Buffer.alloc(0);
