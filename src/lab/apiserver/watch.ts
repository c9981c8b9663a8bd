import { Doorbell } from '../../async/doorbell.ts';
import { ApiError, badRequest, expired, statusOf } from './api-error.ts';
import type { Core } from './core.ts';
import { entriesOf } from './read.ts';
import { type Representation, renderObject } from './representation.ts';
import { apiVersionOf, type Resource } from './resource.ts';
import type { Selection } from './selection.ts';
import { Entry, type StoreEvent } from './store.ts';

export interface WatchRequest {
  readonly resource: Resource;
  readonly selection: Selection;
  readonly representation: Representation;
  readonly query: WatchQuery;
}

export interface WatchQuery {
  /** Where to start; `undefined` and 0 mean: with all that is there. */
  readonly revision: number | undefined;
  readonly bookmarks: boolean;
  readonly sendInitialEvents: boolean;
  readonly timeoutMs: number;
}

const minuteMs = 60_000;
/** Timers hold no more than 24.8 days. */
const longestMs = 24 * 60 * minuteMs;
const bookmarkEveryMs = 30_000;
/** Lines handed over in one piece; more would block the loop for long. */
const batchLines = 200;

/** @throws ApiError 400 or 422 if the parameters do not fit together */
export function watchQuery(query: URLSearchParams): WatchQuery {
  const text = query.get('resourceVersion') ?? '';
  if (text !== '' && !/^\d+$/.test(text)) throw badRequest(`resourceVersion: Invalid value: "${text}"`);
  const sendInitialEvents = query.get('sendInitialEvents');
  const bookmarks = isTrue(query.get('allowWatchBookmarks'));
  if (sendInitialEvents !== null && query.get('resourceVersionMatch') !== 'NotOlderThan')
    throw listOptionsInvalid('resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
  if (isTrue(sendInitialEvents) && !bookmarks)
    throw listOptionsInvalid('allowWatchBookmarks: Forbidden: sendInitialEvents requires allowWatchBookmarks');
  const seconds = Number(query.get('timeoutSeconds') ?? 0);
  return {
    revision: text === '' ? undefined : Number(text),
    bookmarks,
    sendInitialEvents: isTrue(sendInitialEvents),
    timeoutMs: seconds > 0 ? Math.min(seconds * 1000, longestMs) : (30 + Math.random() * 30) * minuteMs,
  };
}

function listOptionsInvalid(text: string): ApiError {
  return new ApiError(422, 'Invalid', `ListOptions.meta.k8s.io "" is invalid: ${text}`);
}

/** As Kubernetes reads a query: anything that is there and is not `0` or `false` in any case. Python's client says `True`. */
export function isTrue(text: string | null): boolean {
  return text !== null && text !== '0' && text.toLowerCase() !== 'false';
}

/**
 * Serves one watch until `signal` ends it, its time is over, or it is too slow to be served from the history.
 *
 * Nothing is queued for it: it keeps a revision and reads on from there, so a slow client costs no memory.
 *
 * @param write hands lines to the client; resolves when it can take more
 */
export async function serveWatch(
  core: Core,
  request: WatchRequest,
  write: (lines: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { resource, query } = request;
  const { store } = core;
  const clock = new WatchClock(query.timeoutMs, signal);
  const unsubscribe = store.subscribe(resource.storage, () => clock.bell.ring());
  try {
    let revision = await sendStart(core, request, write, signal);
    while (!signal.aborted && !clock.over) {
      const events = store.changesSince(resource.storage, revision);
      if (events === 'gone') return await write(errorLine(expired(`too old resource version: ${revision} (${store.revision})`)));
      revision = store.revision;
      await writeLines(
        events.flatMap((event) => eventLine(core, request, event) ?? []),
        write,
        signal,
      );
      if (clock.takeBookmark() && query.bookmarks) await write(bookmarkLine(resource, revision));
      await clock.bell.wait();
    }
  } finally {
    unsubscribe();
    clock.stop();
  }
}

/**
 * When a watch must look up: at its end, when a bookmark is due, when somebody rings. The loop asks the timers, never the clock: a
 * timer may fire a little before its time by the other clock, and then nothing would ring again.
 */
class WatchClock {
  readonly bell = new Doorbell();
  over = false;
  #bookmarkDue = false;
  readonly #end: NodeJS.Timeout;
  readonly #bookmarks: NodeJS.Timeout;
  readonly #signal: AbortSignal;
  readonly #ring = () => this.bell.ring();

  constructor(timeoutMs: number, signal: AbortSignal) {
    this.#signal = signal;
    signal.addEventListener('abort', this.#ring);
    this.#end = setTimeout(() => {
      this.over = true;
      this.bell.ring();
    }, timeoutMs);
    this.#bookmarks = setInterval(() => {
      this.#bookmarkDue = true;
      this.bell.ring();
    }, bookmarkEveryMs);
  }

  takeBookmark(): boolean {
    const due = this.#bookmarkDue;
    this.#bookmarkDue = false;
    return due;
  }

  stop(): void {
    clearTimeout(this.#end);
    clearInterval(this.#bookmarks);
    this.#signal.removeEventListener('abort', this.#ring);
  }
}

/** Sends what the client does not have yet and says from which revision the changes go on. */
async function sendStart(core: Core, request: WatchRequest, write: (lines: string) => Promise<void>, signal: AbortSignal): Promise<number> {
  const { resource, query, representation } = request;
  const { revision = 0, sendInitialEvents } = query;
  if (revision > 0 && !sendInitialEvents) return revision;
  const start = core.store.revision;
  const entries = core.forgotten.has(resource.plural) ? [] : entriesOf(core, resource, request.selection);
  for (let from = 0; from < entries.length && !signal.aborted; from += batchLines) {
    const lines = entries
      .slice(from, from + batchLines)
      .map((entry) => line('ADDED', renderObject(resource, entry, representation, core.now())));
    await writeLines(lines, write, signal);
  }
  if (sendInitialEvents) await write(bookmarkLine(resource, start, { 'k8s.io/initial-events-end': 'true' }));
  return start;
}

async function writeLines(lines: readonly string[], write: (text: string) => Promise<void>, signal: AbortSignal): Promise<void> {
  for (let from = 0; from < lines.length && !signal.aborted; from += batchLines) await write(lines.slice(from, from + batchLines).join(''));
}

/** An object that enters or leaves the selection by changing is added or deleted for this client. */
function eventLine(
  core: Core,
  { resource, selection, representation }: WatchRequest,
  { type, entry, previous }: StoreEvent,
): string | undefined {
  const now = type !== 'DELETED' && selection.matches(entry.object);
  const before = previous !== undefined && selection.matches(previous.object);
  if (!now && !before) return undefined;
  const seen = now ? (before ? 'MODIFIED' : 'ADDED') : 'DELETED';
  const shown = now ? entry : lastSelected(entry, previous);
  return line(seen, renderObject(resource, shown, representation, core.now()));
}

/** What a client last knew of an object that left its selection, under the revision at which it left. */
function lastSelected(entry: Entry, previous: Entry | undefined): Entry {
  if (previous === undefined) return entry;
  const { object } = previous;
  return new Entry({ ...object, metadata: { ...object.metadata, resourceVersion: String(entry.revision) } }, entry.revision);
}

function line(type: string, json: string): string {
  return `{"type":"${type}","object":${json}}\n`;
}

function bookmarkLine(resource: Resource, revision: number, annotations?: Readonly<Record<string, string>>): string {
  const metadata = { resourceVersion: String(revision), creationTimestamp: null, ...(annotations === undefined ? {} : { annotations }) };
  return line('BOOKMARK', JSON.stringify({ kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }));
}

function errorLine(error: ApiError): string {
  return line('ERROR', JSON.stringify(statusOf(error)));
}
