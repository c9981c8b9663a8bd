import { SeineError } from '../../base/errors/seine-error.ts';
import type { History } from './history.ts';
import { type HistoryLine, readSegment } from './read-segments.ts';
import { RecordedInputs } from './replay.ts';
import { type HistoryStream, listSegments } from './segment-files.ts';

/** Part of a recorded stream, e.g. a segment. */
interface RecordedPart {
  /** Time before which it has no lines (ms since the epoch). */
  readonly startMs: number;
  readonly lines: () => Iterable<HistoryLine> | AsyncIterable<HistoryLine>;
}

/** Recorded inputs, oldest part first. */
interface RecordedParts {
  readonly parts: readonly RecordedPart[];
  /** Returns the time until which the node is known (ms since the epoch). */
  readonly newestMs: () => Promise<number>;
}

/** Time of a line that begins a record (ms since the epoch); undefined for other lines: those of a record belong to its beginning. */
function recordTime({ is, t }: HistoryLine): number | undefined {
  return (is === 'whole' || is === 'round') && typeof t === 'number' ? t : undefined;
}

/**
 * Yields the lines that lead to the inputs at a time: from the last complete record before it.
 *
 * @throws SeineError `INVALID_INPUT` that names the recorded period, for a time outside of it
 */
export async function* linesAt({ parts, newestMs }: RecordedParts, atMs: number): AsyncGenerator<HistoryLine> {
  const begun = parts.filter(({ startMs }) => startMs <= atMs);
  const first = await lastComplete(begun, atMs);
  if (first === undefined) throw outside(atMs, await oldestMs(parts), await newestMs());
  if (begun.length === parts.length) {
    const untilMs = await newestMs();
    if (atMs > untilMs) throw outside(atMs, await oldestMs(parts), untilMs);
  }
  for (const { lines } of begun.slice(first))
    for await (const line of lines()) {
      if ((recordTime(line) ?? 0) > atMs) return;
      yield line;
    }
}

/** Returns the position of the last part in which a complete record begins; its end may be in a later part. */
async function lastComplete(parts: readonly RecordedPart[], atMs: number): Promise<number | undefined> {
  let endFollows = false;
  for (let at = parts.length - 1; at >= 0; at--) {
    let isFound = false;
    const marks: unknown[] = [];
    for await (const line of parts[at]?.lines() ?? []) {
      if ((recordTime(line) ?? 0) > atMs) break;
      if (line['is'] !== 'whole' && line['is'] !== 'complete') continue;
      isFound ||= line['is'] === 'complete' && marks.at(-1) === 'whole';
      marks.push(line['is']);
    }
    if (isFound || (endFollows && marks.at(-1) === 'whole')) return at;
    if (marks.length > 0) endFollows = marks[0] === 'complete';
  }
  return undefined;
}

/** Returns the beginning of the first complete record. */
async function oldestMs(parts: readonly RecordedPart[]): Promise<number | undefined> {
  let begunMs: number | undefined;
  for (const { lines } of parts)
    for await (const line of lines()) {
      if (line['is'] === 'whole') begunMs = recordTime(line);
      if (line['is'] === 'complete' && begunMs !== undefined) return begunMs;
    }
  return undefined;
}

function outside(atMs: number, fromMs: number | undefined, untilMs: number): SeineError {
  if (fromMs === undefined) return new SeineError('INVALID_INPUT', `at: ${timeText(atMs)}: the history has no complete record of inputs`);
  const where = atMs < fromMs ? 'before the oldest record' : 'after the newest record';
  return new SeineError(
    'INVALID_INPUT',
    `at: ${timeText(atMs)} is ${where}: inputs are known from ${timeText(fromMs)} to ${timeText(untilMs)}`,
  );
}

function timeText(ms: number): string {
  return Number.isFinite(ms) && Math.abs(ms) <= 8.64e15 ? new Date(ms).toISOString() : String(ms);
}

/**
 * Returns the inputs that lines lead to. A record that a killed agent did not complete counts for nothing: until the next one, the earlier
 * inputs are those that are known.
 *
 * @throws SeineError `INVALID_INPUT` for a line that cannot be read, `UNAVAILABLE` without a complete record
 */
export async function inputsAt(lines: AsyncIterable<HistoryLine>): Promise<RecordedInputs> {
  let known: RecordedInputs | undefined;
  let reading = new RecordedInputs();
  for await (const line of lines) {
    if (line['is'] === 'whole') reading = new RecordedInputs();
    reading.apply(line);
    if (reading.isKnown) known = reading;
  }
  if (!known) throw new SeineError('UNAVAILABLE', 'the recorded lines have no complete record of inputs');
  return known;
}

/** Inputs in a folder of history. @param nowMs time until which an agent records into it; absent: the newest line is the end */
export async function recordedInFolder(folder: string, nowMs?: number): Promise<RecordedParts> {
  const segments = await listSegments(folder, 'inputs');
  return {
    parts: segments.map(({ startMs, path }) => ({ startMs, lines: () => readSegment(path) })),
    newestMs: async () => nowMs ?? Math.max(await newestLine(folder, 'inputs'), await newestLine(folder, 'events')),
  };
}

async function newestLine(folder: string, stream: HistoryStream): Promise<number> {
  for (const { path } of (await listSegments(folder, stream)).toReversed()) {
    const newest = await newestOf(readSegment(path));
    if (newest > 0) return newest;
  }
  return 0;
}

/** Returns the latest time of lines (ms since the epoch); 0 without any. */
export async function newestOf(lines: Iterable<HistoryLine> | AsyncIterable<HistoryLine>): Promise<number> {
  let newest = 0;
  for await (const { t } of lines) if (typeof t === 'number' && t > newest) newest = t;
  return newest;
}

export interface RecordedInputsPort {
  readonly history: Pick<History, 'folder' | 'isEnabled' | 'completeUntilMs'>;
}

/** One reader at a time: an hour of a busy node is a hundred megabytes of text. */
const beingRead = new WeakSet<object>();

/**
 * Lines of `GET /v1/history/inputs?at=MS`, as JSON, from which {@link inputsAt} computes the inputs at a time.
 *
 * @throws SeineError `INVALID_INPUT` that names the field and the value, `UNAVAILABLE` if nothing is recorded, or during another reading
 */
export async function recordedInputLines({ history }: RecordedInputsPort, query: URLSearchParams): Promise<AsyncGenerator<string>> {
  const text = query.get('at') ?? '';
  if (!/^\d{1,16}$/.test(text)) throw new SeineError('INVALID_INPUT', `at: ${JSON.stringify(text)} is not a number of milliseconds`);
  if (!history.isEnabled) throw new SeineError('UNAVAILABLE', 'nothing is recorded: history.size is 0');
  if (beingRead.has(history)) throw new SeineError('UNAVAILABLE', 'another command reads the history of this node; repeat the command');
  const lines = linesAt(await recordedInFolder(history.folder, history.completeUntilMs), Number(text));
  const first = await lines.next(); // a time outside of the history is refused before the answer begins
  return textLines(history, first.done ? [] : [first.value], lines);
}

async function* textLines(history: object, first: readonly HistoryLine[], rest: AsyncIterable<HistoryLine>): AsyncGenerator<string> {
  beingRead.add(history);
  try {
    for (const line of first) yield JSON.stringify(line);
    for await (const line of rest) yield JSON.stringify(line);
  } finally {
    beingRead.delete(history);
  }
}
