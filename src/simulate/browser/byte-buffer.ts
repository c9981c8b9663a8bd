/*
 * The part of Node's `Buffer` that the compilers and encoders use, for browsers. `byte-buffer.test.ts` compares it with Node's.
 * Source: https://nodejs.org/api/buffer.html
 */

type TextEncoding = 'latin1' | 'hex' | 'utf8';

const CHUNK_BYTES = 8_192;

class ByteBuffer extends Uint8Array {
  get #view(): DataView {
    return new DataView(this.buffer, this.byteOffset, this.byteLength);
  }

  override toString(encoding: TextEncoding = 'utf8', start = 0, end = this.length): string {
    const bytes = this.subarray(start, end);
    if (encoding === 'utf8') return new TextDecoder().decode(bytes);
    if (encoding === 'hex') return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
    // In chunks: the number of arguments of a call is limited.
    let text = '';
    for (let at = 0; at < bytes.length; at += CHUNK_BYTES) text += String.fromCharCode(...bytes.subarray(at, at + CHUNK_BYTES));
    return text;
  }

  /** Writes latin1. @returns number of bytes written */
  write(text: string, offset: number, _encoding: 'latin1'): number {
    const count = Math.min(text.length, this.length - offset);
    for (let at = 0; at < count; at++) this[offset + at] = text.charCodeAt(at);
    return count;
  }

  copy(target: Uint8Array, targetStart = 0, sourceStart = 0, sourceEnd = this.length): number {
    const bytes = this.subarray(sourceStart, Math.min(sourceEnd, sourceStart + target.length - targetStart));
    target.set(bytes, targetStart);
    return bytes.length;
  }

  readUInt8(at: number): number {
    return this.#view.getUint8(at);
  }

  readUInt16BE(at: number): number {
    return this.#view.getUint16(at);
  }

  readUInt32BE(at: number): number {
    return this.#view.getUint32(at);
  }

  readInt32BE(at: number): number {
    return this.#view.getInt32(at);
  }

  readBigUInt64BE(at: number): bigint {
    return this.#view.getBigUint64(at);
  }

  writeUInt8(value: number, at: number): number {
    this.#view.setUint8(at, value);
    return at + 1;
  }

  writeUInt16BE(value: number, at: number): number {
    this.#view.setUint16(at, value);
    return at + 2;
  }

  writeUInt32BE(value: number, at: number): number {
    this.#view.setUint32(at, value);
    return at + 4;
  }

  writeInt32BE(value: number, at: number): number {
    this.#view.setInt32(at, value);
    return at + 4;
  }

  writeBigUInt64BE(value: bigint, at: number): number {
    this.#view.setBigUint64(at, value);
    return at + 8;
  }
}

function fromText(text: string, encoding: TextEncoding): ByteBuffer {
  if (encoding === 'utf8') return new ByteBuffer(new TextEncoder().encode(text));
  const isHex = encoding === 'hex';
  const bytes = new ByteBuffer(isHex ? text.length >>> 1 : text.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = isHex ? Number.parseInt(text.slice(at * 2, at * 2 + 2), 16) : text.charCodeAt(at);
  return bytes;
}

/** Functions of `Buffer`. */
export const byteBuffers = {
  alloc: (length: number): ByteBuffer => new ByteBuffer(length),

  /** A view of an `ArrayBuffer`; a copy of anything else. */
  from(source: string | ArrayBuffer | ArrayLike<number>, encodingOrOffset: TextEncoding | number = 'utf8', length?: number): ByteBuffer {
    if (typeof source === 'string') return fromText(source, encodingOrOffset as TextEncoding);
    if (source instanceof ArrayBuffer) return new ByteBuffer(source, typeof encodingOrOffset === 'number' ? encodingOrOffset : 0, length);
    return new ByteBuffer(source);
  },

  concat(parts: readonly Uint8Array[]): ByteBuffer {
    const whole = new ByteBuffer(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      whole.set(part, at);
      at += part.length;
    }
    return whole;
  },

  byteLength: (text: string): number => new TextEncoder().encode(text).length,
};
