import { open } from 'node:fs/promises';
import { constants, createZstdDecompress } from 'node:zlib';
import { type HistoryStream, listSegments, type Segment } from './segment-files.ts';

/** Line of a segment, parsed. */
export type HistoryLine = Readonly<Record<string, unknown>>;

/** Maximum length of a line: a rule set of a policy with thousands of networks. A longer one ends its segment. */
const LINE_MAX = 16 * 1024 * 1024;

/** Period of history, in milliseconds since the epoch. */
export interface Period {
  readonly fromMs: number;
  readonly untilMs: number;
}

/** Returns the segments that may have lines of a period: those that begin in it, and the one before. */
function segmentsIn(segments: readonly Segment[], { fromMs, untilMs }: Period): readonly Segment[] {
  return segments.filter(({ startMs }, at) => {
    const nextMs = segments[at + 1]?.startMs ?? Number.POSITIVE_INFINITY;
    return startMs <= untilMs && (startMs > fromMs || nextMs > fromMs);
  });
}

/**
 * Reads lines of a stream, oldest first, each segment up to the first line that is incomplete or corrupted. A segment that is removed
 * meanwhile is skipped.
 *
 * @throws the error of the file system, if the folder cannot be read
 */
export async function* readHistory(folder: string, stream: HistoryStream, period: Period): AsyncGenerator<HistoryLine> {
  for (const segment of segmentsIn(await listSegments(folder, stream), period)) yield* readSegment(segment.path);
}

/** Reads one segment, up to the first line that is incomplete or corrupted; nothing if it was removed. */
export async function* readSegment(path: string): AsyncGenerator<HistoryLine> {
  for await (const text of linesOf(path)) {
    const line = parsed(text);
    if (line === undefined) return;
    yield line;
  }
}

function parsed(text: string): HistoryLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as HistoryLine) : undefined;
  } catch {
    return undefined; // the torn end of a segment
  }
}

/** Complete lines of a compressed file, which may end anywhere. */
async function* linesOf(path: string): AsyncGenerator<string> {
  const file = await open(path, 'r').catch(() => undefined); // removed meanwhile
  if (file === undefined) return;
  const bytes = file.createReadStream();
  const plain = createZstdDecompress({ finishFlush: constants.ZSTD_e_flush });
  bytes.on('error', () => plain.end());
  bytes.pipe(plain);
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const piece of plain as AsyncIterable<Uint8Array>) {
      const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      yield* lines;
      if (rest.length > LINE_MAX) return;
    }
  } catch {
    // The compressed bytes are damaged: lines before were returned.
  } finally {
    bytes.destroy();
    plain.destroy();
  }
}
