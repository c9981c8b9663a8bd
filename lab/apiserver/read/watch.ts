import { Doorbell } from '../../../src/base/async/wake-signal.ts';
import { ApiError, badRequest, expired, statusOf } from '../errors/api-error.ts';
import { isTrue } from '../http/api-request.ts';
import { type ApiResource, apiVersionOf } from '../resource/resource.ts';
import { StoredObject, type StoreEvent } from '../store/store.ts';
import { entriesOf } from './read.ts';
import type { ReadBehaviour, ReadStore } from './read-behaviour.ts';
import { type Representation, renderObject } from './representation.ts';
import type { ObjectSelection } from './selection.ts';

interface WatchRequest {
  readonly resource: ApiResource;
  readonly selection: ObjectSelection;
  readonly representation: Representation;
  readonly query: WatchQuery;
}

interface WatchQuery {
  /** Start revision; `undefined` and 0 mean: with all present objects. */
  readonly revision: number | undefined;
  readonly bookmarks: boolean;
  readonly sendInitialEvents: boolean;
  readonly timeoutMs: number;
}

export interface WatchPorts {
  readonly store: Pick<ReadStore, 'list' | 'changesSince' | 'subscribe' | 'revision'>;
  /** Plural names of kinds whose cache is empty. */
  readonly forgotten: ReadonlySet<string>;
  /** The store's revision, if `store` may be behind it. */
  readonly newest?: number;
  readonly behaviour?: Pick<ReadBehaviour, 'watch'>;
  /** Milliseconds since 1970. */
  now(): number;
}

const minuteMs = 60_000;
/** Maximum delay of a timer: 24.8 days. */
const longestMs = 24 * 60 * minuteMs;
const bookmarkEveryMs = 30_000;
/** Lines written at a time; more would block the loop for long. */
const batchLines = 200;

/** @throws ApiError 400 or 422 if the parameters contradict each other */
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

/**
 * Serves one watch until `signal` ends it, its timeout ends, or it is too slow to be served from the history.
 *
 * Nothing is queued for it: it keeps a revision and reads from there, so a slow client costs no memory.
 *
 * @param write writes lines to the client; resolves when it can take more
 */
export async function serveWatch(
  ports: WatchPorts,
  request: WatchRequest,
  write: (lines: string) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const { resource, query } = request;
  const { store, now } = ports;
  const sender: Sender = { ports, request, write, signal };
  const clock = new WatchClock(query.timeoutMs, signal);
  const unsubscribe = store.subscribe(resource.storage, () => clock.bell.ring());
  try {
    const start = await sendStart(sender);
    if (start === 'over') return;
    let revision = start;
    let isInitial = query.sendInitialEvents;
    const initialUpTo = Math.max(start, ports.newest ?? 0, query.revision ?? 0);
    while (!signal.aborted && !clock.over) {
      const events = store.changesSince(resource.storage, revision);
      if (events === 'gone') return await write(errorLine(expired(`too old resource version: ${revision} (${store.revision})`)));
      const sent = revision;
      revision = Math.max(revision, store.revision);
      const lines = events.flatMap((event) => eventLine(request, event, now()) ?? []);
      if ((await sendLines(sender, lines, sent)) === 'over') return;
      if (isInitial && revision >= initialUpTo) {
        isInitial = false;
        await write(bookmarkLine(resource, revision, { 'k8s.io/initial-events-end': 'true' }));
      }
      // A server that lags reports its own revision, whatever revision the client requested.
      const upTo = Math.min(revision, store.revision);
      if (clock.takeBookmark() && query.bookmarks && !isInitial) await write(bookmarkLine(resource, upTo));
      if ((await haveIncident(sender, upTo)) === 'over') return;
      await clock.bell.wait();
    }
  } finally {
    unsubscribe();
    clock.stop();
  }
}

/**
 * Times at which a watch must wake: at its end, when a bookmark is due, when a change is signalled. The loop reads the timers, never the
 * clock: a timer may fire a little early by the other clock, and then nothing would wake the loop again.
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

/** One client, and the function that writes to it. */
interface Sender {
  readonly ports: WatchPorts;
  readonly request: WatchRequest;
  readonly write: (lines: string) => Promise<void>;
  readonly signal: AbortSignal;
}

interface EventLine {
  readonly text: string;
  readonly revision: number;
}

/** Sends what the client lacks and returns the revision from which the changes continue. */
async function sendStart(sender: Sender): Promise<number | 'over'> {
  const { store, forgotten, now } = sender.ports;
  const { resource, query, representation, selection } = sender.request;
  const { revision = 0, sendInitialEvents } = query;
  if (revision > 0 && !sendInitialEvents) return revision;
  const start = store.revision;
  const entries = forgotten.has(resource.plural) ? [] : entriesOf(store, resource, selection);
  for (let from = 0; from < entries.length && !sender.signal.aborted; from += batchLines) {
    const lines = entries.slice(from, from + batchLines).map((entry) => ({
      text: line('ADDED', renderObject(resource, entry, representation, now())),
      revision: start,
    }));
    if ((await sendLines(sender, lines, start)) === 'over') return 'over';
  }
  return start;
}

/** Writes many lines at once, unless a fault is due between them. @param sent revision up to which everything was sent */
async function sendLines(sender: Sender, lines: readonly EventLine[], sent: number): Promise<'over' | undefined> {
  const batch = sender.ports.behaviour?.watch ? 1 : batchLines;
  for (let from = 0; from < lines.length && !sender.signal.aborted; from += batch) {
    const some = lines.slice(from, from + batch);
    if ((await haveIncident(sender, lines[from - 1]?.revision ?? sent)) === 'over') return 'over';
    await sender.write(some.map(({ text }) => text).join(''));
  }
  return undefined;
}

/** @param revision up to which everything was sent */
async function haveIncident({ ports, request, write }: Sender, revision: number): Promise<'over' | undefined> {
  const { resource } = request;
  const incident = ports.behaviour?.watch?.(resource.plural);
  switch (incident) {
    case undefined:
      return undefined;
    case 'bookmark':
      await write(bookmarkLine(resource, revision));
      return undefined;
    case 'expired':
      await write(errorLine(expired(`too old resource version: ${revision} (${ports.store.revision})`)));
      return 'over';
    case 'error':
      await write(errorLine(new ApiError(500, 'InternalError', 'the watch has failed')));
      return 'over';
    case 'end':
      return 'over';
  }
}

/** Formats an event: an object that enters or leaves the selection by a change is added or deleted for this client. */
function eventLine(
  { resource, selection, representation }: WatchRequest,
  { type, entry, previous }: StoreEvent,
  nowMs: number,
): EventLine | undefined {
  const now = type !== 'DELETED' && selection.matches(entry.object);
  const before = previous !== undefined && selection.matches(previous.object);
  if (!now && !before) return undefined;
  const seen = now ? (before ? 'MODIFIED' : 'ADDED') : 'DELETED';
  const shown = now ? entry : lastSelected(entry, previous);
  return { text: line(seen, renderObject(resource, shown, representation, nowMs)), revision: entry.revision };
}

/** Last selected state of an object that left the selection, with the revision at which it left. */
function lastSelected(entry: StoredObject, previous: StoredObject | undefined): StoredObject {
  if (previous === undefined) return entry;
  const { object } = previous;
  return new StoredObject({ ...object, metadata: { ...object.metadata, resourceVersion: String(entry.revision) } }, entry.revision);
}

function line(type: string, json: string): string {
  return `{"type":"${type}","object":${json}}\n`;
}

function bookmarkLine(resource: ApiResource, revision: number, annotations?: Readonly<Record<string, string>>): string {
  const metadata = { resourceVersion: String(revision), creationTimestamp: null, ...(annotations === undefined ? {} : { annotations }) };
  return line('BOOKMARK', JSON.stringify({ kind: resource.kind, apiVersion: apiVersionOf(resource), metadata }));
}

function errorLine(error: ApiError): string {
  return line('ERROR', JSON.stringify(statusOf(error)));
}
