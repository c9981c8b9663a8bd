import { ByteReader, type ByteWriter } from '../../base/bytes/bytes.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { beginMessage, endMessage, HEADER_BYTES, messageType, OPENFLOW_15, readHeader, type Version } from '../protocol.ts';

const VERSION_BITMAP = 1;

/**
 * Appends a hello that offers these versions, in a bitmap and by the highest of them in its header.
 *
 * Source: OpenFlow 1.5.1 section 7.5.1 "Hello": elements of u16 type, u16 length, body, zeros to a multiple of 8.
 */
export function writeHello(w: ByteWriter, versions: readonly Version[] = [OPENFLOW_15]): void {
  const highest = versions.toSorted((a, b) => b - a)[0] ?? OPENFLOW_15;
  const start = beginMessage(w, messageType.hello, highest);
  const bitmap = versions.reduce((sum, version) => sum + 2 ** version, 0);
  w.u16(VERSION_BITMAP).u16(8).u32(bitmap);
  endMessage(w, start);
}

/** Returns the highest version that both sides support, as Open vSwitch chooses too. */
export function agreedVersion(ours: readonly Version[], offered: ReadonlySet<number>): Version | undefined {
  return ours.toSorted((a, b) => b - a).find((version) => offered.has(version));
}

/** Returns the versions that a peer offers: those of its bitmap, or all up to that of its header if it sent none. */
export function offeredVersions(message: Uint8Array): ReadonlySet<number> {
  return offeredIn(message.subarray(HEADER_BYTES), readHeader(message).version);
}

/** Like `offeredVersions`, from the elements of a hello and the version in its header. */
export function offeredIn(elements: Uint8Array, version: number): ReadonlySet<number> {
  const r = new ByteReader(elements, 'hello');
  while (r.remaining >= 4) {
    const [type, length] = [r.peekU16(0), r.peekU16(2)];
    if (length < 4) throw new SeineError('PROTOCOL', `hello element of ${length} bytes`);
    const body = new ByteReader(r.raw(length), 'hello element').skip(4);
    if (type === VERSION_BITMAP && body.remaining >= 4) return bitmapVersions(body.u32());
    r.skip(Math.min((8 - (length % 8)) % 8, r.remaining));
  }
  return new Set(Array.from({ length: version }, (_, index) => index + 1));
}

function bitmapVersions(bitmap: number): ReadonlySet<number> {
  return new Set(Array.from({ length: 32 }, (_, bit) => bit).filter((bit) => ((bitmap >>> bit) & 1) === 1));
}
