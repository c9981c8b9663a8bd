import type { TcpNumbers } from '../../../policy/denied-log/denied-packet.ts';

const ACK = 16;
const SYN = 2;
const RST = 4;

/** First sequence numbers of the payload of both directions; absent where they are not known. `out` is sent by the client. */
interface FirstNumbers {
  readonly out?: number;
  readonly in?: number;
}

/** Returns the number of the first byte of the client, from the SYN that opens a connection. Pure. */
export function firstOfOpening({ sequence, flags }: TcpNumbers): FirstNumbers {
  return (flags & SYN) === 0 ? {} : { out: (sequence + 1) >>> 0 };
}

/** Returns the numbers of the first bytes of both directions, from the SYN that answers. Pure. */
export function firstOfBoth({ sequence, acknowledgment, flags }: TcpNumbers): FirstNumbers {
  return (flags & SYN) === 0 ? {} : { out: acknowledgment, in: (sequence + 1) >>> 0 };
}

/** Returns the numbers from which a connection is counted that is open already, from a segment of its client. Pure. */
export function numbersNow({ sequence, acknowledgment, flags }: TcpNumbers): FirstNumbers {
  return (flags & ACK) === 0 ? {} : { out: sequence, in: acknowledgment };
}

/**
 * Returns the payload of both directions (bytes) by the numbers of the segment that ended a connection; undefined if they are not known. An
 * estimate: numbers begin again after 4 GiB, segments of the other direction may follow, and headers are not counted. Pure.
 *
 * @param isReply true if the end that was connected to sent the segment
 */
export function payloadBytes(
  first: FirstNumbers,
  { sequence, acknowledgment, flags }: TcpNumbers,
  isReply: boolean,
): { readonly out: number; readonly in: number } | undefined {
  // A reset without ACK, e.g. of a process that was killed, does not acknowledge anything. Source: RFC 9293 section 3.5.2.
  if ((flags & ACK) === 0 || first.out === undefined || first.in === undefined) return undefined;
  const [out, received] = isReply ? [acknowledgment, sequence] : [sequence, acknowledgment];
  const difference = (last: number, from: number): number => (last - from) >>> 0;
  const bytes = { out: difference(out, first.out), in: difference(received, first.in) };
  // Numbers of a reset may lie before the first byte, e.g. that of a port that is closed.
  const isBefore = (flags & RST) !== 0 && Math.max(bytes.out, bytes.in) > MAX_BEHIND;
  return isBefore ? { out: 0, in: 0 } : bytes;
}

/** A difference of more than this is one of a few bytes backwards. */
const MAX_BEHIND = 0xffff_ff00;
