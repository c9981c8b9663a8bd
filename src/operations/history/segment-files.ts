import { readdir, stat, unlink } from 'node:fs/promises';
import { join } from 'node:path';

/** Kinds of segments: events, the inputs of the bridge's compilers, and connections of the flow log, in a folder of its own. */
export type HistoryStream = 'events' | 'inputs' | 'flows';

/** File with a part of one stream. */
export interface Segment {
  readonly stream: HistoryStream;
  /** Position in the stream; a later segment has a higher number. */
  readonly number: number;
  /** Time at which it was created (ms since the epoch), by the clock of that moment. */
  readonly startMs: number;
  readonly path: string;
  readonly bytes: number;
}

const namePattern = /^(events|inputs|flows)-(\d{10})-(\d{1,15})\.jsonl\.zst$/;

export function segmentName(stream: HistoryStream, number: number, startMs: number): string {
  return `${stream}-${String(number).padStart(10, '0')}-${Math.max(0, Math.round(startMs))}.jsonl.zst`;
}

/** Lists the segments of a stream, oldest first. Other files are ignored; a missing folder has none. @throws the error of the file system */
export async function listSegments(folder: string, stream: HistoryStream): Promise<readonly Segment[]> {
  const names = await readdir(folder).catch((thrown: unknown) => {
    if (thrown instanceof Error && 'code' in thrown && thrown.code === 'ENOENT') return [];
    throw thrown;
  });
  const found: Segment[] = [];
  for (const name of names) {
    const [, of, number, startMs] = namePattern.exec(name) ?? [];
    if (of !== stream) continue;
    const path = join(folder, name);
    const file = await stat(path).catch(() => undefined); // another agent has removed it
    if (file?.isFile()) found.push({ stream, number: Number(number), startMs: Number(startMs), path, bytes: file.size });
  }
  return found.toSorted((a, b) => a.number - b.number);
}

/** Number of segments that are kept however small they are: an agent that restarts all the time makes many. */
const SEGMENTS_MAX = 256;

/** Removes the oldest segments until the stream has at most `bytes`; never the last one. @returns the bytes that are left */
export async function removeOldest(folder: string, stream: HistoryStream, bytes: number): Promise<number> {
  const segments = await listSegments(folder, stream);
  let total = segments.reduce((sum, each) => sum + each.bytes, 0);
  let left = segments.length;
  for (const each of segments.slice(0, -1)) {
    if (total <= bytes && left <= SEGMENTS_MAX) break;
    await unlink(each.path);
    total -= each.bytes;
    left--;
  }
  return total;
}
