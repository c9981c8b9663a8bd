import { statSync } from 'node:fs';
import type { HistoryEvent } from '../../api/history.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readEvent } from '../../operations/history/event-stream.ts';
import { inputsAt, linesAt, newestOf, recordedInFolder } from '../../operations/history/inputs-at.ts';
import type { HistoryLine } from '../../operations/history/read-segments.ts';
import { readTimeline } from '../../operations/history/read-timeline.ts';
import type { RecordedInputs } from '../../operations/history/replay.ts';
import { readArchive } from '../../operations/support-bundle/archive.ts';
import { historyEventsName, historyInputsName } from '../../operations/support-bundle/history-files.ts';
import type { AgentClient } from '../agent-client.ts';

/** History of one node. */
export interface RecordedSource {
  /** Returns the inputs at a time. @throws SeineError `INVALID_INPUT` that names the recorded period, for a time outside of it */
  readonly inputsAt: (atMs: number) => Promise<RecordedInputs>;
  /** Returns the last event about a subject before a time, among those that are chosen. */
  readonly lastEvent: (subject: string, atMs: number, isChosen: (kind: string) => boolean) => Promise<HistoryEvent | undefined>;
}

/** Time for the answer of an agent (ms), and its maximum length in characters. */
const ANSWER_MS = 120_000;
const ANSWER_MAX = 400_000_000;

/** History that an agent serves. */
export function agentSource(agent: Pick<AgentClient, 'lines'>): RecordedSource {
  const ask = (path: string, query: Readonly<Record<string, string>>): AsyncIterable<HistoryLine> =>
    parsedLines(agent.lines(`${path}?${new URLSearchParams(query)}`, 'GET', AbortSignal.timeout(ANSWER_MS)));
  return {
    inputsAt: async (atMs) => await inputsAt(ask('/v1/history/inputs', { at: String(Math.round(atMs)) })),
    lastEvent: async (subject, atMs, isChosen) =>
      await lastOf(ask('/v1/timeline', { subject, until: String(Math.round(atMs)) }) as AsyncIterable<unknown>, isChosen),
  };
}

/** @throws SeineError `PROTOCOL` for a line that is not a JSON object, or an answer that is too long */
async function* parsedLines(texts: AsyncIterable<string>): AsyncGenerator<HistoryLine> {
  let length = 0;
  for await (const text of texts) {
    if (text === '') continue;
    length += text.length;
    if (length > ANSWER_MAX) throw new SeineError('PROTOCOL', `the agent recorded more than ${ANSWER_MAX / 1e6} MB before this time`);
    const line = parsedLine(text);
    if (line === undefined) throw new SeineError('PROTOCOL', 'the answer of the agent is not of recorded lines');
    yield line;
  }
}

function parsedLine(text: string): HistoryLine | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as HistoryLine) : undefined;
  } catch {
    return undefined;
  }
}

/** @param events as an agent sends them */
async function lastOf(events: AsyncIterable<unknown>, isChosen: (kind: string) => boolean): Promise<HistoryEvent | undefined> {
  let last: HistoryEvent | undefined;
  for await (const each of events) {
    const event = each as HistoryEvent;
    if (typeof event.kind === 'string' && typeof event.time === 'string' && isChosen(event.kind)) last = event;
  }
  return last;
}

/** History in a folder, or in an archive of `seinectl collect`. @throws SeineError `INVALID_INPUT` that names the path */
export async function fileSource(path: string): Promise<RecordedSource> {
  const found = statSync(path, { throwIfNoEntry: false });
  if (found === undefined) throw new SeineError('INVALID_INPUT', `${path} does not exist`);
  return found.isDirectory() ? folderSource(path) : await archiveSource(path);
}

function folderSource(folder: string): RecordedSource {
  return {
    inputsAt: async (atMs) => await inputsAt(linesAt(await recordedInFolder(folder), atMs)),
    lastEvent: async (subject, atMs, isChosen) =>
      await lastOf(readTimeline(folder, { fromMs: 0, untilMs: atMs, node: '', subject }), isChosen),
  };
}

async function archiveSource(path: string): Promise<RecordedSource> {
  const files = await readArchive(path, (name) => name === historyInputsName || name === historyEventsName);
  const inputs = linesOf(files.get(historyInputsName));
  const events = linesOf(files.get(historyEventsName));
  if (inputs.length === 0) throw new SeineError('INVALID_INPUT', `${path} has no ${historyInputsName}: its agent recorded no history`);
  const parts = [{ startMs: 0, lines: () => inputs }];
  const newestMs = async (): Promise<number> => Math.max(await newestOf(inputs), await newestOf(events));
  return {
    inputsAt: async (atMs) => await inputsAt(linesAt({ parts, newestMs }, atMs)),
    lastEvent: (subject, atMs, isChosen) =>
      Promise.resolve(
        events
          .filter(({ t }) => typeof t === 'number' && t <= atMs)
          .flatMap((line) => readEvent(line) ?? [])
          .findLast(({ kind, subjects }) => subjects.includes(subject) && isChosen(kind)),
      ),
  };
}

/** Lines of a part of an archive, up to the first that was cut off. */
function linesOf(bytes: Uint8Array | undefined): readonly HistoryLine[] {
  const lines: HistoryLine[] = [];
  for (const text of Buffer.from(bytes ?? [])
    .toString('utf8')
    .split('\n')) {
    const line = text === '' ? undefined : parsedLine(text);
    if (line === undefined) break;
    lines.push(line);
  }
  return lines;
}
