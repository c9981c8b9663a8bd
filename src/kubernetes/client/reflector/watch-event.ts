import * as z from 'zod';
import { SeineError } from '../../../base/errors/seine-error.ts';
import { statusObject } from '../http-client.ts';
import { parseObject } from '../resource.ts';
import type { FailureKind } from './reflector-machine.ts';

/** Change of one object. */
export interface ObjectEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  readonly object: unknown;
}

/** Event of a watch, with unparsed object. */
export type WatchEvent =
  | ObjectEvent
  | { readonly type: 'BOOKMARK'; readonly version: string; readonly initialEventsEnd: boolean }
  /** The server gives up; the watch ends. */
  | { readonly type: 'ERROR'; readonly error: SeineError };

const eventSchema = z.object({ type: z.enum(['ADDED', 'MODIFIED', 'DELETED', 'BOOKMARK', 'ERROR']), object: z.unknown() });

const bookmarkSchema = z.object({
  metadata: z.object({
    resourceVersion: z.string().min(1),
    annotations: z.object({ 'k8s.io/initial-events-end': z.string().nullish() }).nullish(),
  }),
});

const errorSchema = z.object({ code: z.int().catch(0) });

/**
 * @throws SeineError `INVALID_INPUT` if it is not an event
 * @see Kubernetes API concepts, "Watch bookmarks" and "Streaming lists"
 */
export function parseWatchEvent(raw: unknown): WatchEvent {
  const { type, object } = parseObject(eventSchema, raw);
  switch (type) {
    case 'ADDED':
    case 'MODIFIED':
    case 'DELETED':
      return { type, object };
    case 'BOOKMARK': {
      const { resourceVersion, annotations } = parseObject(bookmarkSchema, object).metadata;
      return { type, version: resourceVersion, initialEventsEnd: annotations?.['k8s.io/initial-events-end'] === 'true' };
    }
    case 'ERROR':
      return { type, error: errorOf(object) };
  }
}

function errorOf(object: unknown): SeineError {
  const parsed = errorSchema.safeParse(object);
  const { reason, message, causes } = statusObject(object);
  return new SeineError('UNAVAILABLE', `the API server ended the watch: ${reason}: ${message}`, {
    context: { status: parsed.success ? parsed.data.code : 0, reason, causes },
  });
}

const envelopeSchema = z.object({
  // Without `items` this is not an empty list, and must never be mistaken for one.
  items: z.array(z.unknown()).nullable(),
  metadata: z.object({ resourceVersion: z.string().min(1), continue: z.string().nullish() }),
});

/** @throws SeineError `PROTOCOL` if it is not a list. `whole` is false if the server left out a rest without being requested to. */
export function parseListEnvelope(raw: unknown): { readonly version: string; readonly whole: boolean } {
  const parsed = envelopeSchema.safeParse(raw);
  if (!parsed.success) throw new SeineError('PROTOCOL', 'the answer of the API server is not a list', { cause: parsed.error });
  return { version: parsed.data.metadata.resourceVersion, whole: !parsed.data.metadata.continue };
}

/** Statuses of servers that do not support `sendInitialEvents`: before 1.27, without the feature, or not Kubernetes. */
const UNSUPPORTED: ReadonlySet<unknown> = new Set([400, 405, 406, 415, 422, 501]);

/** @param doing kind of the request */
export function failureKind(error: SeineError, doing: 'list' | 'watchList' | 'watch'): FailureKind {
  const { status, reason, causes } = error.context;
  if (status === 410 || reason === 'Expired' || reason === 'Gone') return 'gone';
  if (Array.isArray(causes) && causes.includes('ResourceVersionTooLarge')) return 'ahead';
  return doing === 'watchList' && UNSUPPORTED.has(status) ? 'unsupported' : 'broken';
}
