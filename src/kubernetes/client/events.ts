import { createHash } from 'node:crypto';
import { pause } from '../../base/async/pause.ts';
import { Doorbell } from '../../base/async/wake-signal.ts';
import { SeineError } from '../../base/errors/seine-error.ts';
import { type KubeHttp, segment } from './http-client.ts';

/** Event for the owner of an object. */
export interface KubeEvent {
  readonly type: 'Normal' | 'Warning';
  /** CamelCase, constant; e.g. `NotUnderstood`. */
  readonly reason: string;
  readonly message: string;
  readonly about: {
    readonly apiVersion: string;
    readonly kind: string;
    /** Empty for objects without namespace; their events go to `default`. */
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
  };
  /** Anything else that makes the event a new one, e.g. the object's generation. */
  readonly occasion?: string;
}

interface EventPosterOptions {
  readonly http: KubeHttp;
  /** `reportingComponent`, e.g. `seine-agent`. */
  readonly component: string;
  /** `reportingInstance`: the node's name. */
  readonly instance: string;
  readonly onFailure: (error: SeineError) => void;
  readonly nowMs?: () => number;
  readonly pacing?: EventPacing;
}

interface EventPacing {
  /** Interval between two requests (ms). */
  readonly everyMs: number;
  /** Time for which the same event is not posted again (ms). API servers delete events after an hour. */
  readonly repeatMs: number;
  /** Maximum number of waiting events; for a new one, the oldest of the namespace with most of them is dropped. */
  readonly maxWaiting: number;
  /** Maximum number of events remembered as posted. */
  readonly maxRemembered: number;
  readonly retryMs: number;
}

export const eventPacing: EventPacing = { everyMs: 200, repeatMs: 3_600_000, maxWaiting: 1_000, maxRemembered: 10_000, retryMs: 10_000 };

/**
 * Posts Kubernetes Events, a few per second at most and each only once an hour. Namespaces take turns: a user who changes an object again
 * and again does not delay the events of others.
 *
 * The name of an event is derived from its text, so that hundreds of agents with the same event create one object: all but the first get
 * "already exists".
 */
export class EventPoster {
  readonly #options: EventPosterOptions;
  readonly #pacing: EventPacing;
  readonly #nowMs: () => number;
  /** Waiting events by namespace and name; the next namespace comes first. */
  readonly #waiting = new Map<string, Map<string, KubeEvent>>();
  #waitingCount = 0;
  /** Time when each was posted; oldest first. */
  readonly #posted = new Map<string, number>();
  readonly #bell = new Doorbell();
  #dropped = 0;

  constructor(options: EventPosterOptions) {
    this.#options = options;
    this.#pacing = options.pacing ?? eventPacing;
    this.#nowMs = options.nowMs ?? Date.now;
  }

  get waiting(): number {
    return this.#waitingCount;
  }

  /** Number of events that were never posted because too many waited. */
  get dropped(): number {
    return this.#dropped;
  }

  /** Posts an event. Cheap; may be called whenever the condition is observed. */
  post(event: KubeEvent): void {
    const name = eventName(event);
    const postedMs = this.#posted.get(name);
    if (postedMs !== undefined && this.#nowMs() - postedMs < this.#pacing.repeatMs) return;
    this.#wait(name, event);
    if (this.#waitingCount > this.#pacing.maxWaiting) this.#drop();
    this.#bell.ring();
  }

  #wait(name: string, event: KubeEvent): void {
    const { namespace } = event.about;
    const those = this.#waiting.get(namespace) ?? new Map<string, KubeEvent>();
    if (!those.has(name)) this.#waitingCount++;
    this.#waiting.set(namespace, those.set(name, event));
  }

  #waitNoLonger(name: string, { about: { namespace } }: KubeEvent): void {
    const those = this.#waiting.get(namespace);
    if (those?.delete(name)) this.#waitingCount--;
    if (those?.size === 0) this.#waiting.delete(namespace);
  }

  #drop(): void {
    let most: ReadonlyMap<string, KubeEvent> | undefined;
    for (const those of this.#waiting.values()) if (most === undefined || those.size > most.size) most = those;
    const [oldest] = most ?? [];
    if (oldest === undefined) return;
    this.#dropped++;
    this.#waitNoLonger(...oldest);
  }

  /** Returns the oldest event of the next namespace, which becomes the last. */
  #next(): readonly [string, KubeEvent] | undefined {
    const [turn] = this.#waiting;
    if (turn === undefined) return undefined;
    const [namespace, those] = turn;
    this.#waiting.delete(namespace);
    this.#waiting.set(namespace, those);
    const [oldest] = those;
    return oldest;
  }

  /**
   * Posts until `signal` aborts. An event that the server refuses is reported and dropped; without an answer it is retried.
   *
   * @throws SeineError `INVARIANT`
   */
  async run(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const next = this.#next();
      if (next) await pause(await this.#send(next[0], next[1], signal), signal);
      else await this.#bell.wait(signal);
    }
  }

  /** @returns delay before the next request (ms) */
  async #send(name: string, event: KubeEvent, signal: AbortSignal): Promise<number> {
    const namespace = event.about.namespace || 'default';
    const request = {
      method: 'POST',
      path: `/api/v1/namespaces/${segment(namespace)}/events`,
      body: this.#object(name, namespace, event),
    } as const;
    try {
      await this.#options.http.json(request, signal);
    } catch (thrown) {
      const error = SeineError.from(thrown, 'post an event');
      if (error.remedy === 'crash') throw error;
      if (signal.aborted) return 0;
      if (error.context['reason'] !== 'AlreadyExists') this.#options.onFailure(error);
      const { retryAfterMs } = error.context;
      const later = error.code !== 'REFUSED' || error.context['status'] === 429;
      if (later) return typeof retryAfterMs === 'number' ? retryAfterMs : this.#pacing.retryMs;
    }
    this.#settle(name, event);
    return this.#pacing.everyMs;
  }

  #settle(name: string, event: KubeEvent): void {
    if (this.#waiting.get(event.about.namespace)?.get(name) === event) this.#waitNoLonger(name, event);
    this.#posted.delete(name);
    this.#posted.set(name, this.#nowMs());
    dropOldest(this.#posted, this.#pacing.maxRemembered);
  }

  /** Returns a `v1` Event. Source: Kubernetes API reference, Event core/v1. */
  #object(name: string, namespace: string, { type, reason, message, about }: KubeEvent): unknown {
    const time = new Date(this.#nowMs()).toISOString().replace(/\.\d+Z$/, 'Z');
    const { component, instance } = this.#options;
    return {
      apiVersion: 'v1',
      kind: 'Event',
      metadata: { name, namespace },
      involvedObject: { ...about, ...(about.namespace === '' ? { namespace: undefined } : {}) },
      type,
      reason,
      message: message.slice(0, MAX_MESSAGE_CHARS),
      source: { component, host: instance },
      reportingComponent: component,
      reportingInstance: instance,
      firstTimestamp: time,
      lastTimestamp: time,
      count: 1,
    };
  }
}

/** Maximum length of a message in the API server. */
const MAX_MESSAGE_CHARS = 1_024;
/** Maximum length of the object's part of the name. A DNS subdomain name has at most 253 characters; a dot and 16 digits follow. */
const MAX_OBJECT_NAME_CHARS = 236;

function eventName({ about, type, reason, message, occasion = '' }: KubeEvent): string {
  const digest = createHash('sha256')
    .update(JSON.stringify([about.uid, type, reason, message, occasion]))
    .digest('hex');
  // A truncated label must not end with a character that is not allowed there.
  return `${about.name.slice(0, MAX_OBJECT_NAME_CHARS).replace(/[-.]+$/, '')}.${digest.slice(0, 16)}`;
}

function dropOldest(map: Map<string, unknown>, keep: number): void {
  for (const key of map.keys()) {
    if (map.size <= keep) return;
    map.delete(key);
  }
}
