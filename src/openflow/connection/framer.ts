import { SeineError } from '../../base/errors/seine-error.ts';
import { HEADER_BYTES } from '../protocol.ts';

/**
 * Splits a byte stream into whole OpenFlow messages.
 *
 * `push` takes the bytes that the socket delivered, in any sizes, and returns the messages that are now complete, header included. The
 * bytes of a returned message are never written to again.
 *
 * At most one unfinished message is kept: less than 64 KiB. Its chunks are collected and joined once, so that a peer that sends byte by
 * byte costs only linear time.
 *
 * Source: OpenFlow 1.5.1 `ofp_header` (u8 version, u8 type, u16 length, u32 xid; length counts the header).
 */
export class OpenFlowFramer {
  #pieces: Uint8Array[] = [];
  #pendingBytes = 0;
  /** Number of bytes needed before the next step: a header, or the whole message. */
  #wantedBytes = HEADER_BYTES;

  /** @throws SeineError `PROTOCOL` if a header gives a length below 8. The stream is then unusable. */
  push(given: Uint8Array): Uint8Array[] {
    // Sockets deliver Buffers, whose `slice` does not copy; the messages returned here are plain.
    const chunk = new Uint8Array(given.buffer, given.byteOffset, given.byteLength);
    if (this.#pendingBytes + chunk.length < this.#wantedBytes) {
      this.#keep(chunk);
      return [];
    }
    return this.#cut(this.#pendingBytes === 0 ? chunk : this.#join(chunk));
  }

  /** Bytes of an unfinished message; non-zero at the end of the stream means that the peer was cut off. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  #cut(bytes: Uint8Array): Uint8Array[] {
    const messages: Uint8Array[] = [];
    let start = 0;
    let length = HEADER_BYTES;
    while (bytes.length - start >= HEADER_BYTES) {
      length = (bytes[start + 2] ?? 0) * 256 + (bytes[start + 3] ?? 0);
      if (length < HEADER_BYTES) throw new SeineError('PROTOCOL', `message length ${length}`);
      if (start + length > bytes.length) break;
      messages.push(bytes.subarray(start, start + length));
      start += length;
      length = HEADER_BYTES;
    }
    this.#pieces = [];
    this.#pendingBytes = 0;
    this.#wantedBytes = length;
    if (start < bytes.length) this.#keep(bytes.subarray(start));
    return messages;
  }

  #keep(piece: Uint8Array): void {
    if (piece.length === 0) return;
    this.#pieces.push(piece);
    this.#pendingBytes += piece.length;
  }

  #join(chunk: Uint8Array): Uint8Array {
    const joined = new Uint8Array(this.#pendingBytes + chunk.length);
    let at = 0;
    for (const piece of [...this.#pieces, chunk]) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }
}
