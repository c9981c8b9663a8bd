import { join } from 'node:path';
import { readHistory } from '../history/read-segments.ts';
import { type HistoryStream, listSegments } from '../history/segment-files.ts';
import type { BundlePart } from './collect.ts';

/** Recorded events. */
export const historyEventsName = 'history/events.ndjson';
/** Recorded inputs of compilers: input of `seinectl replay`. */
export const historyInputsName = 'history/inputs.ndjson';
/** Maximum length of a part, in characters: the newest lines. */
const PART_MAX = 48 * 1024 * 1024;
/** Time that a part goes back (ms). */
const BACK_MS = 3 * 3_600_000;

/** Events and inputs that the agent recorded, read without it. @param stateDir the agent's state folder */
export function historyParts(stateDir: string, nowMs: () => number): readonly BundlePart[] {
  const folder = join(stateDir, 'history');
  const part = (name: string, stream: HistoryStream): BundlePart => ({
    name,
    gather: (signal) => gathered(folder, stream, nowMs(), signal),
  });
  return [part(historyEventsName, 'events'), part(historyInputsName, 'inputs')];
}

/** Returns the newest lines; inputs begin with a complete record, without which the rest is useless. */
async function gathered(folder: string, stream: HistoryStream, nowMs: number, signal: AbortSignal): Promise<string> {
  if ((await listSegments(folder, stream)).length === 0) throw Object.assign(new Error('no history is recorded'), { code: 'ENOENT' });
  let lines: string[] = [];
  let length = 0;
  for await (const line of readHistory(folder, stream, { fromMs: nowMs - BACK_MS, untilMs: Number.MAX_SAFE_INTEGER })) {
    signal.throwIfAborted();
    const isStart = stream === 'events' ? length > PART_MAX : line['is'] === 'whole' && length > PART_MAX / 2;
    if (isStart) [lines, length] = [[], 0];
    const text = JSON.stringify(line);
    lines.push(text);
    length += text.length;
  }
  return lines.map((line) => `${line}\n`).join('');
}
