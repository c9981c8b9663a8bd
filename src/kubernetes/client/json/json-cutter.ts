import { SeineError } from '../../../base/errors/seine-error.ts';

/**
 * Shape of the stream:
 * - `values`: JSON objects one after another, as in a watch.
 * - `list`: one object whose member `items` is a long array of objects.
 */
export type JsonShape = 'values' | 'list';

export interface JsonLimits {
  /** Larger values are skipped without being kept. */
  readonly maxValueBytes: number;
  /** Maximum nesting inside a value, including the value itself; deeper ones are skipped. */
  readonly maxDepth: number;
  /** Maximum size of a list without its items; more is an error. */
  readonly maxEnvelopeBytes: number;
}

/** Bytes of one value, or the length and reason of a skipped one. */
type Cut = { readonly bytes: Uint8Array } | { readonly skipped: 'too large' | 'too deep'; readonly length: number };

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;

/**
 * Cuts JSON objects out of a byte stream by counting brackets outside strings; it does not check their content.
 *
 * Source: RFC 8259; bytes of multi-byte UTF-8 characters are never equal to ASCII, so no decoding is needed.
 */
export class JsonCutter {
  readonly #envelope: EnvelopeScanner | undefined;
  readonly #value: ValueScanner;

  constructor(shape: JsonShape, limits: JsonLimits) {
    this.#envelope = shape === 'list' ? new EnvelopeScanner(limits.maxEnvelopeBytes) : undefined;
    this.#value = new ValueScanner(limits);
  }

  /**
   * @param chunk bytes from the socket, of any size; may be reused after the iteration ends
   * @throws SeineError `PROTOCOL` if something other than an object appears where one is required. The stream is then unusable.
   */
  *push(chunk: Uint8Array): Generator<Cut, void> {
    let at = 0;
    while (at < chunk.length) {
      if (!this.#value.open) {
        at = this.#findValue(chunk, at);
        if (at === chunk.length) return;
      }
      at = this.#value.scan(chunk, at);
      const cut = this.#value.take();
      if (cut) yield cut;
    }
  }

  /**
   * @returns the bytes of the list without its items; nothing for values
   * @throws SeineError `PROTOCOL` if the stream ended inside a value or inside the list
   */
  end(): Uint8Array | undefined {
    if (this.#value.open) throw new SeineError('PROTOCOL', 'the stream ended inside an object');
    return this.#envelope?.end();
  }

  /** Returns the index of the next value's brace, or the length of the chunk. */
  #findValue(chunk: Uint8Array, from: number): number {
    let at = this.#envelope && !this.#envelope.inItems ? this.#envelope.scan(chunk, from) : from;
    for (; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte === OPEN_BRACE) break;
      if (isSpace(byte) || (byte === COMMA && this.#envelope)) continue;
      if (byte !== CLOSE_BRACKET || !this.#envelope) throw new SeineError('PROTOCOL', `byte ${byte} where an object must begin`);
      this.#envelope.leaveItems();
      return this.#findValue(chunk, at);
    }
    return at;
  }
}

/** Collects one object's bytes from its brace to its matching brace. */
class ValueScanner {
  open = false;
  readonly #limits: JsonLimits;
  #pieces: Uint8Array[] = [];
  #length = 0;
  #depth = 0;
  #tooDeep = false;
  #inString = false;
  #escaped = false;
  #complete = false;

  constructor(limits: JsonLimits) {
    this.#limits = limits;
  }

  /** @returns the index after the last byte that belongs to the value */
  scan(chunk: Uint8Array, from: number): number {
    this.open = true;
    const to = this.#findEnd(chunk, from);
    this.#length += to - from;
    if (this.#length > this.#limits.maxValueBytes || this.#tooDeep) this.#pieces = [];
    else this.#pieces.push(this.#complete ? chunk.subarray(from, to) : new Uint8Array(chunk.subarray(from, to))); // a Buffer's `slice` does not copy
    return to;
  }

  /** Returns the value, once it is complete. */
  take(): Cut | undefined {
    if (!this.#complete) return undefined;
    const length = this.#length;
    const cut: Cut = this.#tooDeep
      ? { skipped: 'too deep', length }
      : length > this.#limits.maxValueBytes
        ? { skipped: 'too large', length }
        : { bytes: join(this.#pieces, length) };
    this.#pieces = [];
    this.#length = 0;
    this.#tooDeep = false;
    this.#complete = false;
    this.open = false;
    return cut;
  }

  #findEnd(chunk: Uint8Array, from: number): number {
    let depth = this.#depth;
    for (let at = from; at < chunk.length; at++) {
      if (this.#inString) {
        at = this.#skipString(chunk, at);
        continue;
      }
      const byte = chunk[at];
      if (byte === QUOTE) this.#inString = true;
      else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (++depth > this.#limits.maxDepth) this.#tooDeep = true;
      } else if ((byte === CLOSE_BRACE || byte === CLOSE_BRACKET) && --depth === 0) {
        this.#depth = 0;
        this.#complete = true;
        return at + 1;
      }
    }
    this.#depth = depth;
    return chunk.length;
  }

  /** @returns the index of the closing quote, or the last index of the chunk if it has none */
  #skipString(chunk: Uint8Array, from: number): number {
    let at = from;
    if (this.#escaped) {
      this.#escaped = false;
      at++;
    }
    for (; at < chunk.length; at++) {
      const byte = chunk[at];
      if (byte === QUOTE) {
        this.#inString = false;
        return at;
      }
      if (byte === BACKSLASH && ++at === chunk.length) this.#escaped = true;
    }
    return chunk.length - 1;
  }
}

/** Follows the outer object of a list to the array `items`, and keeps everything outside it. */
class EnvelopeScanner {
  inItems = false;
  readonly #maxBytes: number;
  readonly #kept: number[] = [];
  #depth = 0;
  #inString = false;
  #escaped = false;
  /** String being read, if it is a member name of the outer object. */
  #name: string | undefined;
  #expectName = false;
  #itemsFollow = false;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** @returns the index after the bracket that opens `items`, or the length of the chunk */
  scan(chunk: Uint8Array, from: number): number {
    for (let at = from; at < chunk.length; at++) {
      const byte = chunk[at] ?? 0;
      this.#keep(byte);
      if (this.#inString) this.#stringByte(byte);
      else if (this.#structureByte(byte)) return at + 1;
    }
    return chunk.length;
  }

  leaveItems(): void {
    this.inItems = false;
    this.#itemsFollow = false;
    this.#depth++; // for the next bracket, whose partner was not counted
  }

  end(): Uint8Array {
    if (this.#depth !== 0 || this.inItems || this.#kept.length === 0) throw new SeineError('PROTOCOL', 'the list ended too early');
    return Uint8Array.from(this.#kept);
  }

  #keep(byte: number): void {
    if (this.#kept.length === this.#maxBytes)
      throw new SeineError('PROTOCOL', `more than ${this.#maxBytes} bytes besides the items of a list`);
    this.#kept.push(byte);
  }

  #stringByte(byte: number): void {
    if (this.#escaped) this.#escaped = false;
    else if (byte === BACKSLASH) this.#escaped = true;
    else if (byte === QUOTE) this.#inString = false;
    if (this.#inString && this.#name !== undefined && this.#name.length <= 'items'.length) this.#name += String.fromCharCode(byte);
  }

  /** @returns whether the array of items begins */
  #structureByte(byte: number): boolean {
    if (this.#depth === 0 && byte !== OPEN_BRACE && !isSpace(byte)) throw new SeineError('PROTOCOL', `byte ${byte} outside a list`);
    if (byte === QUOTE) {
      this.#inString = true;
      this.#name = this.#depth === 1 && this.#expectName ? '' : undefined;
    } else if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
      if (byte === OPEN_BRACKET && this.#depth === 1 && this.#itemsFollow) return (this.inItems = true);
      this.#expectName = this.#depth++ === 0;
    } else if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) this.#depth--;
    else if (this.#depth === 1) this.#memberByte(byte);
    return false;
  }

  #memberByte(byte: number): void {
    if (byte === COLON) {
      this.#itemsFollow = this.#name === 'items';
      this.#expectName = false;
    } else if (byte === COMMA) {
      this.#itemsFollow = false;
      this.#expectName = true;
    }
  }
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

/** Joins chunks. A single chunk is not copied; it is valid until the next value is cut. */
function join(pieces: readonly Uint8Array[], length: number): Uint8Array {
  const [only] = pieces;
  if (only && pieces.length === 1) return only;
  const joined = new Uint8Array(length);
  let at = 0;
  for (const piece of pieces) {
    joined.set(piece, at);
    at += piece.length;
  }
  return joined;
}
