import type { HistoryEvent } from '../../api/history.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { readEvent } from './event-stream.ts';
import type { History, RecordedLine } from './history.ts';
import { type Period, readHistory } from './read-segments.ts';

/** Events to read. */
interface TimelineQuestion extends Period {
  /** Only events about this object, e.g. `pod/shop/web-0`. */
  readonly subject?: string;
  /** Node of the history: events about no object are about it. */
  readonly node: string;
}

/** Kinds of objects; an event about none of them is about the node. */
const ofObjects = /^(?:pod|service|policy|namespace)\//;

/** Kinds that are about the node and about the objects whose entries changed. */
const ofNode = /^drift\./;

/** Reports whether an event is about a subject; one about no object is about its node. */
export function isAbout(
  { kind, subjects }: Pick<HistoryEvent, 'kind' | 'subjects'>,
  { subject, node }: Pick<TimelineQuestion, 'subject' | 'node'>,
): boolean {
  if (subject === undefined || subjects.includes(subject)) return true;
  if (subject !== `node/${node}`) return false;
  return ofNode.test(kind) || !subjects.some((each) => ofObjects.test(each) || each.startsWith('node/'));
}

/** Reads the events of a folder, oldest first. @throws the error of the file system, if the folder cannot be read */
export async function* readTimeline(folder: string, question: TimelineQuestion): AsyncGenerator<HistoryEvent> {
  for await (const line of readHistory(folder, 'events', question)) {
    const event = eventIn(line, question);
    if (event) yield event;
  }
}

function eventIn(line: Parameters<typeof readEvent>[0], question: TimelineQuestion): HistoryEvent | undefined {
  const atMs = Number(line['t']);
  if (!(atMs >= question.fromMs && atMs <= question.untilMs)) return undefined;
  const event = readEvent(line);
  return event && isAbout(event, question) ? event : undefined;
}

/** Readers at once, and events that one that is slow may be behind. */
const FOLLOWERS_MAX = 8;
const BEHIND_MAX = 1_000;
/** Interval of empty lines while nothing happens (ms): they keep the connection open. */
const SIGN_EVERY_MS = 5_000;

export interface TimelinePort {
  readonly config: { readonly nodeName: string };
  readonly history: Pick<History, 'flush' | 'folder' | 'follow' | 'isEnabled'>;
}

let followers = 0;

/**
 * Lines of `GET /v1/timeline?from=MS&until=MS&subject=pod/NS/NAME&follow=1`: an event each, as JSON. With `follow`, later events too, and
 * empty lines in between.
 *
 * @throws SeineError `INVALID_INPUT` that names the field and the value, `UNAVAILABLE` if nothing is recorded, or too many follow
 */
export function timelineLines({ config, history }: TimelinePort, query: URLSearchParams, signal: AbortSignal): AsyncGenerator<string> {
  if (!history.isEnabled) throw new SeineError('UNAVAILABLE', 'nothing is recorded: history.size is 0');
  const [fromMs, untilMs] = [timeIn(query, 'from', 0), timeIn(query, 'until', Number.MAX_SAFE_INTEGER)];
  const question = { fromMs, untilMs, node: config.nodeName, ...subjectIn(query) };
  if (query.get('follow') === null) return recorded(history, question);
  if (followers >= FOLLOWERS_MAX) throw new SeineError('UNAVAILABLE', `${FOLLOWERS_MAX} readers follow already`);
  return followed(history, question, signal);
}

async function* recorded(history: TimelinePort['history'], question: TimelineQuestion): AsyncGenerator<string> {
  await history.flush();
  for await (const event of readTimeline(history.folder, question)) yield JSON.stringify(event);
}

async function* followed(history: TimelinePort['history'], question: TimelineQuestion, signal: AbortSignal): AsyncGenerator<string> {
  followers++;
  await history.flush();
  const later: RecordedLine[] = [];
  let wake = (): void => undefined;
  const end = history.follow((line) => {
    if (later.length < BEHIND_MAX) later.push(line);
    wake();
  });
  signal.addEventListener('abort', () => wake(), { once: true });
  try {
    let read = 0;
    for await (const line of readHistory(history.folder, 'events', question)) {
      if (typeof line['n'] === 'number') read = line['n']; // positions of the last process are the last ones
      const event = eventIn(line, question);
      if (event) yield JSON.stringify(event);
    }
    while (!signal.aborted) {
      for (const { position, line } of later.splice(0)) {
        const event = position > read ? eventIn(JSON.parse(line) as Parameters<typeof readEvent>[0], question) : undefined;
        if (event) yield JSON.stringify(event);
      }
      if (later.length > 0) continue;
      const isNews = await Promise.race([
        new Promise<boolean>((resolve) => (wake = () => resolve(true))),
        new Promise<boolean>((resolve) => void setTimeout(() => resolve(false), SIGN_EVERY_MS).unref()),
      ]);
      if (!isNews) yield '';
    }
  } finally {
    followers--;
    end();
  }
}

function timeIn(query: URLSearchParams, field: string, usual: number): number {
  const text = query.get(field);
  if (text === null) return usual;
  if (!/^\d{1,16}$/.test(text)) throw new SeineError('INVALID_INPUT', `${field}: ${JSON.stringify(text)} is not a number of milliseconds`);
  return Number(text);
}

const subjectPattern =
  /^(?:pod|service)\/[a-z0-9.-]{1,253}\/[a-z0-9.-]{1,253}$|^node\/[a-z0-9.-]{1,253}$|^policy\/[a-z0-9.-]{1,253}(?:\/[a-z0-9.-]{1,253})?$/;

function subjectIn(query: URLSearchParams): { readonly subject?: string } {
  const subject = query.get('subject');
  if (subject === null) return {};
  if (subjectPattern.test(subject)) return { subject };
  throw new SeineError(
    'INVALID_INPUT',
    `subject: ${JSON.stringify(subject)} is not pod/NS/NAME, service/NS/NAME, node/NAME or policy/NS/NAME`,
  );
}
