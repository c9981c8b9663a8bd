/*
 * Buckets of a Service's group differ in an address, a port and a number. Ten thousand groups of ten buckets are 15 MB as messages; storing
 * repeated bytes once reduces that to a sixth. The bytes that differ are found by comparing; their meaning does not matter here.
 *
 *     u8 mark, u16 bytes of a bucket, u16 buckets, u16 columns
 *     the message up to its first bucket, and that bucket
 *     u16 offset within a bucket        for each column: a byte that differs between buckets
 *     the bytes at these offsets        for each further bucket
 *     the rest of the message, after the buckets
 */

/** First byte of a packed group. No message begins with it: the first byte of a message is its version. */
const MARK = 'B'.charCodeAt(0);
const PACKED_HEAD_BYTES = 7;

/** Offsets of OpenFlow 1.5.1 `ofp_group_mod`, and of `ofp_bucket`, whose first field is its length. */
const GROUP_MOD = { bucketBytes: 16, buckets: 24 } as const;
/** Size of the units of which a bucket consists. */
const WORD_BYTES = 4;
/** Minimum number of buckets for packing: with fewer there is little repetition. */
const BUCKETS_LEAST = 3;

/** Position of a message's buckets, which are contiguous and of equal size. */
interface BucketSpan {
  /** Bytes per bucket. */
  readonly size: number;
  readonly count: number;
}

/** Buffer of the maximum length of an OpenFlow message; the packed form is shorter. */
const scratch = Buffer.alloc(0x1_0000);
const columns = new Uint16Array(0x1_0000);

/**
 * Returns a group-mod as a string, one byte per character; shorter where its buckets are alike. Strings are equal exactly if the messages
 * are.
 */
export function packGroup(message: Uint8Array): string {
  const view = new DataView(message.buffer, message.byteOffset, message.byteLength);
  const span = spanOf(view);
  const count = span ? findColumns(view, span) : 0;
  if (span === undefined || packedBytes(message.length, span, count) >= message.length)
    return Buffer.from(message.buffer, message.byteOffset, message.byteLength).toString('latin1');
  return scratch.toString('latin1', 0, writePacked(message, span, count));
}

/** Reverse of `packGroup`. */
export function unpackGroup(packed: string): Buffer {
  const bytes = Buffer.from(packed, 'latin1');
  if (bytes[0] !== MARK) return bytes;
  const [size, count, varying] = [bytes.readUInt16BE(1), bytes.readUInt16BE(3), bytes.readUInt16BE(5)];
  const [firstAt, offsetsAt] = [PACKED_HEAD_BYTES + GROUP_MOD.buckets, PACKED_HEAD_BYTES + GROUP_MOD.buckets + size];
  const tailAt = offsetsAt + varying * (2 + count - 1);
  const message = Buffer.alloc(GROUP_MOD.buckets + size * count + bytes.length - tailAt);
  bytes.copy(message, 0, PACKED_HEAD_BYTES, firstAt);
  let from = offsetsAt + varying * 2;
  for (let at = GROUP_MOD.buckets; at < GROUP_MOD.buckets + size * count; at += size) {
    bytes.copy(message, at, firstAt, offsetsAt);
    if (at === GROUP_MOD.buckets) continue;
    for (let column = 0; column < varying; column++) message[at + bytes.readUInt16BE(offsetsAt + column * 2)] = bytes[from++] ?? 0;
  }
  bytes.copy(message, GROUP_MOD.buckets + size * count, tailAt);
  return message;
}

/** Returns the position of the buckets; undefined unless all have the length of the first. */
function spanOf(message: DataView): BucketSpan | undefined {
  if (message.byteLength < GROUP_MOD.buckets + 2) return undefined;
  const [all, size] = [message.getUint16(GROUP_MOD.bucketBytes), message.getUint16(GROUP_MOD.buckets)];
  const isWhole = size >= WORD_BYTES && size % WORD_BYTES === 0 && all % size === 0 && GROUP_MOD.buckets + all <= message.byteLength;
  return isWhole && all / size >= BUCKETS_LEAST ? { size, count: all / size } : undefined;
}

/** Fills `columns` with the offsets that differ between buckets. @returns their number */
function findColumns(message: DataView, { size, count }: BucketSpan): number {
  const end = GROUP_MOD.buckets + size * count;
  let found = 0;
  for (let word = 0; word < size; word += WORD_BYTES) {
    const first = message.getInt32(GROUP_MOD.buckets + word);
    let differing = 0;
    for (let at = GROUP_MOD.buckets + size + word; at < end; at += size) differing |= first ^ message.getInt32(at);
    if (differing === 0) continue;
    for (let byte = 0; byte < WORD_BYTES; byte++) if ((differing >>> (24 - 8 * byte)) & 0xff) columns[found++] = word + byte;
  }
  return found;
}

function packedBytes(whole: number, { size, count }: BucketSpan, varying: number): number {
  return PACKED_HEAD_BYTES + whole - size * (count - 1) + varying * (2 + count - 1);
}

/** @returns number of bytes written to `scratch` */
function writePacked(message: Uint8Array, { size, count }: BucketSpan, varying: number): number {
  scratch[0] = MARK;
  scratch.writeUInt16BE(size, 1);
  scratch.writeUInt16BE(count, 3);
  scratch.writeUInt16BE(varying, 5);
  const [firstEnd, end] = [GROUP_MOD.buckets + size, GROUP_MOD.buckets + size * count];
  for (let at = 0; at < firstEnd; at++) scratch[PACKED_HEAD_BYTES + at] = message[at] ?? 0; // cheaper than a view of it
  let to = PACKED_HEAD_BYTES + firstEnd;
  for (let column = 0; column < varying; column++) to = scratch.writeUInt16BE(columns[column] ?? 0, to);
  for (let bucket = firstEnd; bucket < end; bucket += size)
    for (let column = 0; column < varying; column++) scratch[to++] = message[bucket + (columns[column] ?? 0)] ?? 0;
  for (let at = end; at < message.length; at++) scratch[to++] = message[at] ?? 0;
  return to;
}
