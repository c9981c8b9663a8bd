import type { LoopTurns } from '../../../base/async/loop-turns.ts';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { JsonCutter, type JsonLimits, type JsonShape } from './json-cutter.ts';

/**
 * Limits for API objects. An object may have 1.5 MiB in etcd, as protobuf; as JSON a NetworkPolicy is up to three times that. One that
 * cannot be read isolates no pod, so the limit is above everything that an API server serves. The event loop is blocked while an object is
 * parsed, about 10 ms for each MiB, and again while it is used. Depth: no object that the agent reads is deeper than about 15.
 */
export const apiLimits: JsonLimits = { maxValueBytes: 8 * 1024 * 1024, maxDepth: 64, maxEnvelopeBytes: 256 * 1024 };

/** Size of a value whose reading and use are separate turns of the event loop. */
const LARGE_BYTES = 128 * 1024;

/** Value that was present but is unknown, because it exceeded a limit. */
export interface Unreadable {
  readonly why: 'too large' | 'too deep' | 'no JSON';
  readonly bytes: number;
}

export interface JsonSink {
  readonly limits: JsonLimits;
  readonly turns: LoopTurns;
  /** Called with each value as it arrives. Synchronous, so that a value is freed before the next is parsed. */
  readonly onValue: (value: unknown) => void;
  readonly onUnreadable: (what: Unreadable) => void;
  /** Reports whether a value is known from its bytes, and need not be parsed. */
  readonly isKnown?: (bytes: Buffer) => boolean;
  /** Called after the values of one chunk, that is after a bounded time; for work that is better done once than for each value. */
  readonly onPause?: () => void;
}

/**
 * Reads a stream of JSON values, or the elements of `items` of one large object, and never blocks the event loop longer than it takes to
 * parse one value.
 *
 * @returns for `list` the object without its items; for `values` undefined
 * @throws SeineError `PROTOCOL` if the stream is not JSON of that shape, or ends inside a value; and errors of reading
 */
export async function readJson(shape: JsonShape, chunks: AsyncIterable<Uint8Array>, sink: JsonSink): Promise<unknown> {
  const cutter = new JsonCutter(shape, sink.limits);
  for await (const chunk of chunks) {
    for (const cut of cutter.push(chunk)) {
      if ('bytes' in cut) {
        const value = read(cut.bytes, sink);
        // What is done with a large value takes as long as reading it.
        if (cut.bytes.length > LARGE_BYTES && sink.turns.due) await sink.turns.next();
        if (value !== undefined) sink.onValue(value);
      } else sink.onUnreadable({ why: cut.skipped, bytes: cut.length });
      if (sink.turns.due) await sink.turns.next();
    }
    sink.onPause?.();
    if (sink.turns.due) await sink.turns.next();
  }
  const envelope = cutter.end();
  return envelope === undefined ? undefined : parseJson(envelope);
}

/** @returns undefined for a value that is known, or unreadable */
function read(bytes: Uint8Array, sink: JsonSink): unknown {
  if (sink.isKnown?.(bufferOf(bytes))) return undefined;
  try {
    return parseJson(bytes);
  } catch {
    sink.onUnreadable({ why: 'no JSON', bytes: bytes.length });
    return undefined;
  }
}

/** @throws SeineError `PROTOCOL` */
export function parseJson(bytes: Uint8Array): unknown {
  try {
    return JSON.parse(bufferOf(bytes).toString('utf8'));
  } catch (cause) {
    throw new SeineError('PROTOCOL', 'the server sent something that is not JSON', { context: { bytes: bytes.length }, cause });
  }
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length);
}
