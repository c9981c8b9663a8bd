/** Maximum number of bytes kept of a frame. */
export const SNAP_LENGTH = 2_048;

const MAGIC_NANOSECONDS = 0xa1b2_3c4d;
const LINKTYPE_ETHERNET = 1;

/** Header of a capture file: draft-ietf-opsawg-pcap, section 4, in host byte order. */
export function pcapHeader(): Buffer {
  const header = Buffer.alloc(24);
  header.writeUInt32LE(MAGIC_NANOSECONDS, 0);
  header.writeUInt16LE(2, 4);
  header.writeUInt16LE(4, 6);
  header.writeUInt32LE(SNAP_LENGTH, 16);
  header.writeUInt32LE(LINKTYPE_ETHERNET, 20);
  return header;
}

/**
 * Record of a frame in a capture file: section 5.
 *
 * @param frame its first bytes
 * @param bytes its whole length
 * @param atMs milliseconds since 1970, with a fraction
 */
export function pcapRecord(frame: Uint8Array, bytes: number, atMs: number): Buffer {
  const seconds = Math.floor(atMs / 1_000);
  const record = Buffer.alloc(16 + frame.length);
  record.writeUInt32LE(seconds, 0);
  record.writeUInt32LE(Math.min(999_999_999, Math.floor((atMs - seconds * 1_000) * 1_000_000)), 4);
  record.writeUInt32LE(frame.length, 8);
  record.writeUInt32LE(bytes, 12);
  record.set(frame, 16);
  return record;
}
